import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { explainFailure, installReason, lockDifference } from "./install.mjs";
import { checkMachine } from "./platform.mjs";
import { removeStale } from "./prepare.mjs";
import { oneAtATime } from "./turnstile.mjs";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "prepare-"));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function put(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

describe("the machine", () => {
  const machine = { version: "18.0.0", platform: "linux", arch: "x64", glibc: true };

  it("is accepted from Node 18 on", () => {
    expect(() => checkMachine(machine)).not.toThrow();
  });

  it.each([
    [{ version: "16.20.0" }, /Node 16\.20\.0.*update Node/],
    [{ platform: "win32" }, /this machine is win32-x64.*WSL/],
    [{ arch: "s390x" }, /this machine is linux-s390x/],
    [{ glibc: false }, /no glibc.*Alpine/],
  ])("is refused in a sentence when it is %j", (change, sentence) => {
    expect(() => checkMachine({ ...machine, ...change })).toThrow(sentence);
  });
});

describe("whether to install", () => {
  const lock = { packages: { "": {}, "node_modules/pg": { version: "8.1.0" } } };
  beforeEach(() => put("package-lock.json", JSON.stringify(lock)));

  it("follows what is there", () => {
    expect(installReason(root)).toBe("nothing is installed yet");
    put("node_modules/pg/package.json", "{}");
    expect(installReason(root)).toBe("the pinned Node is not installed");
    put("node_modules/node/bin/node", "");
    expect(installReason(root)).toBe("the last install did not finish");
    put("node_modules/.package-lock.json", JSON.stringify({ packages: { "node_modules/pg": { version: "8.0.9" } } }));
    expect(installReason(root)).toBe("pg 8.1.0 is not what is installed");
    put("node_modules/.package-lock.json", JSON.stringify(lock));
    expect(installReason(root)).toBeNull();
  });

  it("remembers the lock it installed, and notices another", () => {
    put("node_modules/node/bin/node", "");
    put("node_modules/.package-lock.json", JSON.stringify(lock));
    expect(installReason(root)).toBeNull();
    const stamp = readFileSync(join(root, "node_modules/.signalbox-install"), "utf8");
    expect(stamp).toContain(createHash("sha256").update(JSON.stringify(lock)).digest("hex"));
    put(
      "package-lock.json",
      JSON.stringify({ packages: { ...lock.packages, "node_modules/ws": { version: "1.0.0" } } }),
    );
    expect(installReason(root)).toBe("ws 1.0.0 is not what is installed");
  });

  it("does not miss optional packages of other platforms, links and workspaces", () => {
    const wanted = {
      packages: {
        "": { version: "0.1.0" },
        "packages/core": { version: "0.1.0" },
        "node_modules/@signalbox/core": { link: true },
        "node_modules/pg-darwin": { version: "1.0.0", optional: true },
        "node_modules/a/node_modules/b": { version: "2.0.0" },
      },
    };
    expect(lockDifference(wanted, { packages: { "node_modules/a/node_modules/b": { version: "2.0.0" } } })).toBeNull();
    expect(lockDifference(wanted, { packages: {} })).toBe("b 2.0.0 is not what is installed");
  });

  it.each([
    ["npm error code ENOSPC", /disk is full/],
    ["npm error EACCES: permission denied, mkdir", /may not write/],
    ["npm error EROFS: read-only file system", /may not write/],
    ["npm error code EBADPLATFORM", /no build for this machine/],
    ["npm error request to https://x failed, reason: getaddrinfo ENOTFOUND x", /cannot be reached/],
    ["npm error code EINTEGRITY", /cache clean/],
    ["npm error code EUSAGE", /disagree/],
  ])("tells %j in a sentence", (output, sentence) => {
    expect(explainFailure(output, false)).toMatch(sentence);
  });

  it("shows the end of what it does not know", () => {
    expect(explainFailure("one\ntwo\nsomething new", false)).toMatch(
      /The end of what it said:\n\none\ntwo\nsomething new$/,
    );
    expect(explainFailure("", true)).toMatch(/twenty minutes/);
  });
});

describe("one at a time", () => {
  const options = () => {
    const told: string[] = [];
    return {
      told,
      file: join(root, ".signalbox/prepare.lock"),
      waitMs: 2_000,
      say: (line: string) => void told.push(line),
    };
  };

  it("keeps the second outside until the first is done", async () => {
    const order: string[] = [];
    const gate = Promise.withResolvers<void>();
    const inside = Promise.withResolvers<void>();
    const first = oneAtATime(options(), async () => {
      inside.resolve();
      await gate.promise;
      order.push("first");
    });
    await inside.promise;
    const { told, ...second } = options();
    const say = (line: string): void => {
      told.push(line);
      gate.resolve();
    };
    await oneAtATime({ ...second, say }, async () => void order.push("second"));
    await first;
    expect(order).toEqual(["first", "second"]);
    expect(told).toEqual([`process ${process.pid} is installing or building here; waiting for it`]);
    expect(existsSync(second.file)).toBe(false);
  });

  it("passes by a process that died inside", async () => {
    const child = spawn(process.execPath, ["-e", ""], { stdio: "ignore" });
    await new Promise((resolve) => child.once("exit", resolve));
    put(".signalbox/prepare.lock", `${child.pid} 1\n`);
    expect(await oneAtATime(options(), async () => "through")).toBe("through");
  });

  it("passes by a number that was given to another process", async () => {
    put(".signalbox/prepare.lock", `${process.pid} 1\n`);
    expect(await oneAtATime(options(), async () => "through")).toBe("through");
  });

  it("gives up with a sentence", async () => {
    const entered = oneAtATime(options(), () => oneAtATime({ ...options(), waitMs: 50 }, async () => "never"));
    await expect(entered).rejects.toThrow(`Process ${process.pid} has been installing or building for too long`);
    expect(existsSync(options().file)).toBe(false);
  });
});

describe("a build", () => {
  it("takes away the output of a source that is gone", () => {
    for (const path of [
      "dist/a.js",
      "dist/a.d.ts",
      "dist/a.js.map",
      "dist/run/b.js",
      "dist/run/b.d.ts",
      "dist/.tsbuildinfo",
      "src/a.ts",
    ]) {
      put(path, "");
    }
    removeStale(join(root, "dist"), join(root, "src"));
    const left = ["dist/a.js", "dist/a.d.ts", "dist/a.js.map", "dist/.tsbuildinfo"].map((path) =>
      existsSync(join(root, path)),
    );
    expect(left).toEqual([true, true, true, true]);
    expect(existsSync(join(root, "dist/run/b.js"))).toBe(false);
    expect(existsSync(join(root, "dist/run/b.d.ts"))).toBe(false);
  });
});
