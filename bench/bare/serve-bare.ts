/** The other end of a bare engine's channel: runs what it is asked and takes the times. */
import type { BareAnswer, BareOrder, BareRun } from "./bare-process.ts";

/** Runs the engine once and calls `onToken` for each piece of text as it comes. */
export type BareEngine = (order: BareOrder, onToken: (text: string) => void) => Promise<void>;

export function serveBare(engine: BareEngine, leave: () => Promise<void> = () => Promise.resolve()): void {
  process.on("message", (order: BareOrder) => {
    timed(engine, order).then(
      (run) => answer({ conversation: order.conversation, run }),
      (thrown: unknown) => answer({ conversation: order.conversation, problem: String(thrown) }),
    );
  });
  process.once("disconnect", () => {
    leave().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}

function answer(message: BareAnswer): void {
  process.send?.(message);
}

async function timed(engine: BareEngine, order: BareOrder): Promise<BareRun> {
  let firstTokenMs = Number.NaN;
  let lastTokenMs = Number.NaN;
  let text = "";
  const startMs = performance.now();
  await engine(order, (token) => {
    lastTokenMs = performance.now() - startMs;
    if (text === "") firstTokenMs = lastTokenMs;
    text += token;
  });
  return { firstTokenMs, lastTokenMs, finishedMs: performance.now() - startMs, text };
}
