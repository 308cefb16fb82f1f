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

it("pins the one binary", () => {
  expect(manifestOf("server").bin).toEqual({ signalbox: "./bin/signalbox.js" });
});
