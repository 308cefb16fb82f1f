/** A program: `node abandoned.js <data directory>`, run by the watch of a node that died. Nobody reads what it prints. */
import { leaveForTheDead } from "./server-lifecycle.ts";

const dataDir = process.argv[2];
if (dataDir === undefined) {
  process.exitCode = 2;
} else {
  await leaveForTheDead(dataDir);
}
