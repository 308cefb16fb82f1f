/**
 * Loaded before every test file. Gives the file a temporary directory of its own and fails it when, after its
 * last test, a socket, server, child process or a temporary file is still there: nothing may be left open.
 */
import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const GRACE_MS = 3_000;
const POLL_MS = 20;

/** Resources a file may not leave behind. Timers are absent on purpose: the runner keeps some of its own. */
const WATCHED: ReadonlySet<string> = new Set([
  "TCPServerWrap",
  "TCPSocketWrap",
  "PipeServerWrap",
  "PipeWrap",
  "ProcessWrap",
  "FSEventWrap",
  "HTTP2SESSION",
  "TLSWrap",
  "UDPWrap",
]);

const parent = process.env.TMPDIR;
const ownDirectory = mkdtempSync(join(tmpdir(), "sbx-test-"));
// A database server that drops root must be able to walk through.
chmodSync(ownDirectory, 0o755);
process.env.TMPDIR = ownDirectory;

// Opened when first looked at, which a library may do while it loads; they are this process's own and stay.
Object.values({ input: process.stdin, output: process.stdout, errors: process.stderr });
// A file that cannot even be loaded has no last test.
process.once("exit", () => rmSync(ownDirectory, { recursive: true, force: true }));

const before = countOpen();

afterAll(async () => {
  const deadlineMs = performance.now() + GRACE_MS;
  let left = leftOpen();
  while (left.length > 0 && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    left = leftOpen();
  }
  rmSync(ownDirectory, { recursive: true, force: true });
  if (parent === undefined) {
    delete process.env.TMPDIR;
  } else {
    process.env.TMPDIR = parent;
  }
  if (left.length > 0) {
    throw new Error(`left open after the last test of this file: ${left.join(", ")}`);
  }
}, GRACE_MS + 10_000);

function leftOpen(): readonly string[] {
  const now = countOpen();
  const left: string[] = [];
  for (const [kind, count] of now) {
    const extra = count - (before.get(kind) ?? 0);
    if (extra > 0) {
      left.push(`${extra} × ${kind}`);
    }
  }
  for (const name of readdirSync(ownDirectory)) {
    left.push(`temporary ${name}`);
  }
  return left;
}

function countOpen(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (WATCHED.has(kind)) {
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
  }
  return counts;
}
