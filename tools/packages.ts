/**
 * What npm would publish: every package is packed and the tarball is judged as a stranger gets it: entries that
 * exist, types that resolve, nothing inside that was not meant to leave.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./run.ts";

const root = join(import.meta.dirname, "..");

/** Of what `npm pack --json` says, the part we read. */
interface Packed {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

const UNWANTED = /\.test\.|\.tsbuildinfo$|(^|\/)\.env|\.log$/;

const folder = mkdtempSync(join(tmpdir(), "signalbox-packages-"));
let failures = 0;
try {
  for (const name of readdirSync(join(root, "packages")).toSorted()) {
    const said = await judge(join(root, "packages", name));
    said.forEach((line) => console.log(`${name}: ${line}`));
    failures += said.length;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(failures === 0 ? "packages: fit to publish" : `packages: ${failures} objections`);
process.exitCode = failures === 0 ? 0 : 1;

async function judge(path: string): Promise<readonly string[]> {
  const packed = await run(["npm", "pack", "--json", "--ignore-scripts", "--pack-destination", folder], path);
  if (packed.code !== 0) {
    return [packed.output.trim()];
  }
  const { filename, files } = firstPacked(packed.stdout);
  const tarball = join(folder, filename);
  const said = files.filter((file) => UNWANTED.test(file.path)).map((file) => `packs ${file.path}`);
  if (!files.some((file) => file.path === "dist/index.js")) {
    said.push("packs no dist/index.js; build first");
  }
  if (
    files.some((file) => file.path === "bin/signalbox.js") &&
    !files.some((file) => file.path === "page/index.html")
  ) {
    said.push("packs no page/index.html");
  }
  const published = await run(["publint", "run", tarball, "--strict"], path);
  if (published.code !== 0) {
    said.push(published.output.trim());
  }
  const types = await run(["attw", tarball, "--profile", "esm-only", "--format", "ascii", "--no-color"], path);
  if (types.code !== 0) {
    said.push(types.output.trim());
  }
  return said;
}

function firstPacked(output: string): Packed {
  // npm's own answer: a list, or since npm 12 a record by package name, with one entry here.
  const answer = JSON.parse(output) as readonly Packed[] | Readonly<Record<string, Packed>>;
  const packed = Object.values(answer)[0];
  if (packed === undefined) {
    throw new Error("npm packed nothing");
  }
  return packed;
}
