import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly engines: Readonly<Record<string, string>>;
}

function manifestOf(folder: string): Manifest {
  const file = join(import.meta.dirname, "../../packages", folder, "package.json");
  return JSON.parse(readFileSync(file, "utf8")) as Manifest;
}

it.each([
  ["contract", "@signalbox/contract", [".", "./worker-protocol", "./package.json"]],
  ["core", "@signalbox/core", [".", "./package.json"]],
  ["server", "signalbox", [".", "./package.json"]],
  ["worker", "@signalbox/worker", [".", "./package.json"]],
  ["executor-langgraph", "@signalbox/executor-langgraph", [".", "./package.json"]],
  ["executor-claude-sdk", "@signalbox/executor-claude-sdk", [".", "./package.json"]],
  ["client", "@signalbox/client", [".", "./package.json"]],
  ["testkit", "@signalbox/testkit", [".", "./package.json"]],
])("pins the name, the entries and the Node of %s", (folder, name, entries) => {
  const manifest = manifestOf(folder);
  expect(manifest.name).toBe(name);
  expect(Object.keys(manifest.exports)).toEqual(entries);
  expect(manifest.engines).toEqual({ node: ">=22.18" });
});

it.each(["18.20.8", "20.20.2", "22.17.1"])("says in a sentence that Node %s is too old for the binary", (version) => {
  const pretend = `Object.defineProperty(process,"versions",{value:{...process.versions,node:"${version}"}})`;
  const binary = join(import.meta.dirname, "../../packages/server/bin/signalbox.js");
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", `data:text/javascript,${pretend}`, binary, "--help"],
    { encoding: "utf8" },
  );
  expect({ status, stdout, stderr }).toEqual({
    status: 1,
    stdout: "",
    stderr: `signalbox needs Node.js 22.18 or newer, and this is ${version}.\n`,
  });
});

it("pins the one binary", () => {
  expect(manifestOf("server").bin).toEqual({ signalbox: "./bin/signalbox.js" });
});
