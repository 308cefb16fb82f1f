/**
 * Shows how `layers.json` differs from what the folders import today; `--write` puts the list right. Read the
 * difference before you commit it: a new permission is a decision about direction.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readRepository } from "./tidy/repository.ts";
import { checkLayers, usedLayers, type Layers } from "./tidy/rules/layers.ts";

const root = join(import.meta.dirname, "..");
const file = join(root, "layers.json");
const repository = readRepository(root);
// The file is ours; tidy documents its shape.
const layers = JSON.parse(readFileSync(file, "utf8")) as Layers;

if (process.argv.includes("--write")) {
  writeFileSync(file, `${JSON.stringify(usedLayers(repository, layers), null, 2)}\n`);
} else {
  for (const finding of checkLayers(repository)) {
    console.log(`${finding.file}:${finding.line}  ${finding.message}`);
  }
}
