/**
 * A program: takes the lock again and again, and writes when it came in and went out. It never gives the lock back: it
 * leaves it in the name of a dead process, and dies with it in its hand at the end, so every change is a takeover.
 */
import { randomUUID } from "node:crypto";
import { appendFileSync, renameSync, writeFileSync } from "node:fs";
import { FileLock } from "../../packages/server/src/database/lock-file.ts";

const [path, journal, times, dead] = process.argv.slice(2);
if (path === undefined || journal === undefined || times === undefined || dead === undefined) {
  throw new Error("usage: database-lock-holder <lock> <journal> <times> <a dead process as JSON>");
}
for (let turn = 1; ; turn += 1) {
  await FileLock.acquire({ path, patienceMs: 60_000 });
  appendFileSync(journal, `in ${process.pid}\n`);
  await new Promise((resolve) => setImmediate(resolve));
  appendFileSync(journal, `out ${process.pid}\n`);
  if (turn === Number(times)) {
    process.kill(process.pid, "SIGKILL");
  }
  const draft = `${journal}.${process.pid}`;
  writeFileSync(draft, `{"id":"${randomUUID()}","process":${dead}}`);
  renameSync(draft, path);
}
