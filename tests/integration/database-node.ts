/**
 * A program: one node that opens the embedded database, says so in one JSON line, and leaves when its input ends with
 * `leave`. What kills it otherwise is the test's business.
 */
import { once } from "node:events";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { PlatformError } from "@signalbox/contract";

const [dataDir, abandonedAfterMs] = process.argv.slice(2);
if (dataDir === undefined || abandonedAfterMs === undefined) {
  throw new Error("usage: database-node <data directory> <abandoned after ms>");
}

function say(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

try {
  const startedAtMs = performance.now();
  const database = await openDatabase({
    dataDir,
    abandonedAfterMs: Number(abandonedAfterMs),
    report: (step) => say({ step }),
  });
  if (database.kind !== "embedded") {
    throw new Error("expected an embedded database");
  }
  say({
    opened: database.origin,
    serverPid: database.serverPid,
    connectionString: database.connectionString,
    tookMs: performance.now() - startedAtMs,
  });
  const [word] = (await once(process.stdin, "data")) as [Buffer];
  if (word.toString() === "leave\n") {
    await database[Symbol.asyncDispose]();
    say({ left: true });
  }
} catch (error) {
  say(
    error instanceof PlatformError
      ? { refused: error.extra["reason"], detail: error.detail, code: error.code }
      : { refused: "unexpected", detail: String(error) },
  );
}
process.stdin.destroy();
