#!/usr/bin/env node
// Committed as it runs, so that the command is linked at install, before anything is built. Any Node can begin with it,
// so that one that is too old is told so in a sentence.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(`signalbox-sim needs Node.js 22.18 or newer, and this is ${process.versions.node}.\n`);
  process.exitCode = 1;
} else {
  await import("../dist/sim/main.js");
}
