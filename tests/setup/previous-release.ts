/**
 * The newest release as its users installed it: the packages of `releases/`, unpacked beside each other into a folder
 * of their own. Ours come from the archives; everything third-party is linked to what this repository has installed.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ARCHIVE = /^(signalbox(?:-[a-z-]+)?)-\d+\.\d+\.\d+\.tgz$/;
const OURS: ReadonlySet<string> = new Set(["signalbox", "@signalbox"]);

export interface PreviousRelease extends Disposable {
  readonly version: string;
  readonly schemaFile: string;
  /** What `node` runs. */
  readonly binary: string;
  /** Names of the files in a folder of the released platform, by its path below `dist/`. */
  files(path: string): readonly string[];
  /** A module of the released platform, by its path below `dist/`. */
  module(path: string): Promise<Readonly<Record<string, unknown>>>;
}

export function unpackPreviousRelease(): PreviousRelease {
  const folder = newestRelease();
  const root = mkdtempSync(join(tmpdir(), "release-"));
  const modules = join(root, "node_modules");
  mkdirSync(join(modules, "@signalbox"), { recursive: true });
  linkThirdParty(modules);
  for (const file of readdirSync(folder)) {
    const name = ARCHIVE.exec(file)?.[1];
    if (name === undefined) continue;
    execFileSync("tar", ["-xzf", join(folder, file), "-C", root]);
    const place = name === "signalbox" ? name : name.replace(/^signalbox-/, "@signalbox/");
    renameSync(join(root, "package"), join(modules, place));
  }
  const dist = join(modules, "signalbox/dist");
  return {
    version: folder.slice(folder.lastIndexOf("v") + 1),
    schemaFile: join(folder, "schema.sql"),
    binary: join(dist, "main.js"),
    files: (path) => readdirSync(join(dist, path)),
    module: (path) => import(pathToFileURL(join(dist, path)).href) as Promise<Readonly<Record<string, unknown>>>,
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}

function newestRelease(): string {
  const releases = join(ROOT, "releases");
  const numbers = (name: string): number[] => name.slice(1).split(".").map(Number);
  const [newest] = readdirSync(releases)
    .filter((name) => /^v\d+\.\d+\.\d+$/.test(name))
    .toSorted((left, right) => {
      const [a, b] = [numbers(left), numbers(right)];
      const differing = a.findIndex((number, at) => number !== b[at]);
      return differing === -1 ? 0 : (b[differing] ?? 0) - (a[differing] ?? 0);
    });
  if (newest === undefined) throw new Error(`there is no release in ${releases}`);
  return join(releases, newest);
}

function linkThirdParty(modules: string): void {
  const installed = join(ROOT, "node_modules");
  for (const name of readdirSync(installed)) {
    if (OURS.has(name) || name.startsWith(".")) continue;
    const place = join(modules, name);
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(join(installed, name), place);
  }
}
