import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigurationError, portOf, secretOf, textOf } from "./environment.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "environment-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function file(content: string): string {
  const path = join(folder, "secret");
  writeFileSync(path, content);
  return path;
}

describe("a text", () => {
  it.each([
    [undefined, null],
    ["", null],
    ["  ", null],
    ["x", "x"],
    [" x\n", "x"],
  ])("%j counts as %j", (value, text) => {
    expect(textOf({ NAME: value }, "NAME")).toBe(text);
  });
});

describe("a secret", () => {
  it("is the variable, or what the file says that a second variable names", () => {
    expect(secretOf({}, "TOKEN")).toBeNull();
    expect(secretOf({ TOKEN: "value" }, "TOKEN")).toBe("value");
    expect(secretOf({ TOKEN_FILE: file("from a file\n") }, "TOKEN")).toBe("from a file");
    expect(secretOf({ TOKEN: "", TOKEN_FILE: file("from a file") }, "TOKEN")).toBe("from a file");
  });

  it("is not guessed when it is given in both ways", () => {
    expect(() => secretOf({ TOKEN: "value", TOKEN_FILE: file("other") }, "TOKEN")).toThrow(
      "Both TOKEN and TOKEN_FILE are set; leave one of them out.",
    );
  });

  it("whose file is not there, or is empty, is missed with a sentence and not with silence", () => {
    const path = join(folder, "nothing");
    expect(() => secretOf({ TOKEN_FILE: path }, "TOKEN")).toThrow(ConfigurationError);
    expect(() => secretOf({ TOKEN_FILE: path }, "TOKEN")).toThrow(`TOKEN_FILE names ${path}, which cannot be read`);
    expect(() => secretOf({ TOKEN_FILE: folder }, "TOKEN")).toThrow("cannot be read");
    expect(() => secretOf({ TOKEN_FILE: file(" \n") }, "TOKEN")).toThrow("is empty");
  });

  it("never stands in the sentence", () => {
    try {
      secretOf({ TOKEN: "hunter2", TOKEN_FILE: file("hunter3") }, "TOKEN");
      expect.unreachable("it should have been refused");
    } catch (thrown) {
      expect(String(thrown)).not.toMatch(/hunter/);
    }
  });
});

describe("a port", () => {
  it.each(["0", "1", "4620", "65535"])("may be %s", (text) => {
    expect(portOf(text, "PORT")).toBe(Number(text));
  });

  it.each(["-1", "65536", "1.5", "http", "", " ", "0x10", "1e3", "4620 ", "+80"])("may not be %j", (text) => {
    expect(() => portOf(text, "PORT")).toThrow(`PORT must be a port number from 0 to 65535, not "${text}".`);
  });
});
