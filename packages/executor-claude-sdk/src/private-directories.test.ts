import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makePrivateDirectories, removePrivateDirectories, sweepAbandoned } from "./private-directories.ts";

let scratchDir: string;

beforeEach(() => {
  scratchDir = mkdtempSync(join(tmpdir(), "x-"));
});

afterEach(() => {
  rmSync(scratchDir, { recursive: true, force: true });
});

test("each session has directories nobody else can read", async () => {
  const one = await makePrivateDirectories(scratchDir);
  const two = await makePrivateDirectories(scratchDir);
  expect(one.root).not.toBe(two.root);
  for (const path of Object.values(one)) {
    expect(statSync(path).mode & 0o777).toBe(0o700);
  }
  await removePrivateDirectories(one.root);
  expect(readdirSync(scratchDir)).toHaveLength(1);
  await removePrivateDirectories(two.root);
});

test("the next worker removes what dead workers left, and nothing of the living", async () => {
  const { pid: dead } = spawnSync("true");
  const kept = await makePrivateDirectories(scratchDir);
  for (const name of [`c${String(dead)}-aaaaaa`, `c${String(process.pid)}-before`, "c1-init", "other"]) {
    mkdirSync(join(scratchDir, name, "h"), { recursive: true });
  }
  await sweepAbandoned(scratchDir);
  const names = readdirSync(scratchDir);
  expect(names).toContain(kept.root.slice(scratchDir.length + 1));
  expect(names.filter((name) => !kept.root.endsWith(name)).sort()).toEqual(["c1-init", "other"]);
  await removePrivateDirectories(kept.root);
});

test("a scratch directory that is not there yet is no error", async () => {
  await sweepAbandoned(join(scratchDir, "later"));
  const made = await makePrivateDirectories(join(scratchDir, "later"));
  await removePrivateDirectories(made.root);
});
