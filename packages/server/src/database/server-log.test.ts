import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { logSize, openLog, readLog, shortenLog } from "./server-log.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "log-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("the server's log", () => {
  it("stays within its bound while a server that never reopens it goes on writing", async () => {
    const path = join(folder, "log");
    const server = await openLog(path);
    await server.write("a".repeat(100));
    await shortenLog(path, 100);
    expect(await logSize(path)).toBe(100);

    await server.write("b");
    await shortenLog(path, 100);
    expect(await logSize(path)).toBe(0);
    expect(readFileSync(`${path}.1`, "utf8")).toBe(`${"a".repeat(100)}b`);

    await server.write("c");
    expect(readFileSync(path, "utf8")).toBe("c");
    await server.close();
  });

  it("tells what was written since a place, also when it was shortened meanwhile", async () => {
    const path = join(folder, "log");
    writeFileSync(path, "before\n");
    const from = await logSize(path);
    appendFileSync(path, "after\n");
    expect(await readLog(path, from)).toBe("after\n");
    writeFileSync(path, "");
    expect(await readLog(path, from)).toBe("");
  });

  it("has no size before there is one", async () => {
    expect(await logSize(join(folder, "none"))).toBe(0);
    await shortenLog(join(folder, "none"), 1);
  });
});
