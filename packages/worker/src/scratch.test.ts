import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeScratch } from "./scratch.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "scratch-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("scratch directory", () => {
  it("is private to a worker and goes with it, with whatever is inside", async () => {
    const [first, second] = [await makeScratch(root), await makeScratch(root)];
    expect(first.path).not.toBe(second.path);
    writeFileSync(join(first.path, "file"), "x");
    await first[Symbol.asyncDispose]();
    expect(existsSync(first.path)).toBe(false);
    expect(existsSync(second.path)).toBe(true);
    await second[Symbol.asyncDispose]();
  });

  it("removes what dead workers left, and nothing of the living or of others", async () => {
    const mine = await makeScratch(root);
    const home = mine.path.slice(0, mine.path.indexOf(`-${process.pid}-`));
    const deadPid = 2 ** 22 - 3;
    mkdirSync(`${home}-${deadPid}-abc`);
    mkdirSync(join(root, `signalbox-worker-elsewhere-${deadPid}-abc`));
    mkdirSync(join(root, "other"));
    const next = await makeScratch(root);
    expect(readdirSync(root).toSorted()).toEqual(
      [mine.path, next.path]
        .map((path) => path.slice(root.length + 1))
        .concat("other", `signalbox-worker-elsewhere-${deadPid}-abc`)
        .toSorted(),
    );
    await mine[Symbol.asyncDispose]();
    await next[Symbol.asyncDispose]();
  });
});
