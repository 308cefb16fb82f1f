/**
 * A file whose modification time keeps changing belongs to a living process, also where its pid means nothing
 * (another container, another machine). Only change is judged, never the time itself: clocks may differ.
 */
import { utimesSync } from "node:fs";
import { stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const BEAT_EVERY_MS = 1_000;
/** A node's event loop may stall for seconds under load; declaring it dead costs the data directory. */
const SILENT_AFTER_MS = 10_000;
const LOOK_EVERY_MS = 250;

export class Heartbeat implements Disposable {
  readonly #timer: NodeJS.Timeout;

  constructor(path: string) {
    this.#timer = setInterval(() => beat(path), BEAT_EVERY_MS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

function beat(path: string): void {
  const seconds = Date.now() / 1_000;
  try {
    utimesSync(path, seconds, seconds);
  } catch {
    // Somebody removed the folder. Whoever owns the file finds out when it next uses it.
  }
}

/** Watches until the file changes (true), or has not for long enough or is gone (false). */
export async function stillBeats(path: string): Promise<boolean> {
  const first = await modifiedAtMs(path);
  const deadlineMs = performance.now() + SILENT_AFTER_MS;
  while (performance.now() < deadlineMs) {
    await sleep(LOOK_EVERY_MS);
    const now = await modifiedAtMs(path);
    if (now === null) {
      return false;
    }
    if (now !== first) {
      return true;
    }
  }
  return false;
}

async function modifiedAtMs(path: string): Promise<number | null> {
  return stat(path).then(
    (found) => found.mtimeMs,
    () => null,
  );
}
