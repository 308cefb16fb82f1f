import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { canReach, canRun, chooseServerUser, type ServerUser } from "./server-user.ts";

const root = { uid: 0, gid: 0 };
const ada = { uid: 1_000, gid: 1_000 };

describe("the server's user", () => {
  it("is the user of this process", () => {
    expect(chooseServerUser(ada, null)).toEqual({ ...ada, dropped: false });
    expect(chooseServerUser(ada, ada)).toEqual({ ...ada, dropped: false });
  });

  it("may not be another one without being root", () => {
    expect(() => chooseServerUser(ada, { uid: 65_534, gid: 65_534 })).toThrow(
      "belongs to user id 65534 and this process runs as 1000",
    );
  });

  it.runIf(process.platform === "linux")("is nobody for root, or who owns the cluster already", () => {
    expect(chooseServerUser(root, null)).toEqual({ uid: 65_534, gid: 65_534, dropped: true });
    expect(chooseServerUser(root, root)).toEqual({ uid: 65_534, gid: 65_534, dropped: true });
    expect(chooseServerUser(root, ada)).toEqual({ ...ada, dropped: true });
  });
});

describe("reaching a file", () => {
  it("takes the right to enter every folder above it, and to run it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "reach-"));
    const stranger: ServerUser = { uid: 54_321, gid: 54_321, dropped: true };
    try {
      chmodSync(folder, 0o711);
      mkdirSync(join(folder, "inner"));
      const program = join(folder, "inner", "program");
      writeFileSync(program, "", { mode: 0o755 });
      expect(await canRun(program, stranger)).toBe(true);
      chmodSync(program, 0o754);
      expect(await canRun(program, stranger)).toBe(false);
      expect(await canReach(program, stranger)).toBe(true);
      chmodSync(folder, 0o700);
      expect(await canReach(program, stranger)).toBe(false);
      expect(await canReach(program, { ...stranger, dropped: false })).toBe(true);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
