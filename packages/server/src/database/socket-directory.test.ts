import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ServerUser } from "./server-user.ts";
import { makeSocketDirectory, removeSocketDirectory, restoreSocketDirectory, socketPath } from "./socket-directory.ts";

const self: ServerUser = { uid: process.getuid!(), gid: process.getgid!(), dropped: false };
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "s-"));
  chmodSync(root, 0o755);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("the socket's directory", () => {
  it("is private, in the first place that is short enough", async () => {
    const long = join(root, "d".repeat(100));
    mkdirSync(long);
    const directory = await makeSocketDirectory(self, [long, root]);
    expect(dirname(directory)).toBe(root);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(Buffer.byteLength(socketPath(directory))).toBeLessThanOrEqual(107);
  });

  it("is refused when every place is too long, counted in bytes", async () => {
    // 44 letters, 88 bytes.
    const long = join("/", "ä".repeat(44));
    await expect(makeSocketDirectory(self, [long])).rejects.toMatchObject({
      code: "database_unavailable",
      extra: { reason: "path_too_long" },
      detail: expect.stringContaining("Set TMPDIR to a shorter folder"),
    });
  });

  it("skips a place that is not there", async () => {
    const directory = await makeSocketDirectory(self, [join(root, "none"), root]);
    expect(dirname(directory)).toBe(root);
    await expect(makeSocketDirectory(self, [join(root, "none")])).rejects.toMatchObject({
      code: "database_unavailable",
    });
  });

  it("comes back under its name", async () => {
    const directory = await makeSocketDirectory(self, [root]);
    await removeSocketDirectory(directory);
    await restoreSocketDirectory(directory, self);
    await restoreSocketDirectory(directory, self);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
  });

  it.runIf(self.uid === 0)(
    "is not made where the server's user cannot walk, nor taken over from another user",
    async () => {
      const closed = join(root, "closed");
      mkdirSync(closed, { mode: 0o700 });
      const somebody: ServerUser = { uid: 65_534, gid: 65_534, dropped: true };
      await expect(makeSocketDirectory(somebody, [closed])).rejects.toMatchObject({
        extra: { reason: "no_permission" },
      });
      await expect(restoreSocketDirectory(closed, somebody)).rejects.toMatchObject({
        extra: { reason: "no_permission" },
      });
    },
  );
});
