import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { derive, platformSecret } from "./secret.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "secret-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe("the platform's secret", () => {
  it("is what was configured, and then nothing is written", () => {
    expect(platformSecret("configured", folder)).toBe("configured");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("is made once, kept for its owner alone, and found again", () => {
    const dataDir = join(folder, "data", "deep");
    const secret = platformSecret(null, dataDir);
    expect(secret).toMatch(/^[\w-]{43}$/);
    expect(platformSecret(null, dataDir)).toBe(secret);
    expect(readdirSync(dataDir)).toEqual(["secret"]);
    expect(statSync(join(dataDir, "secret")).mode & 0o777).toBe(0o600);
  });

  it("is another elsewhere", () => {
    expect(platformSecret(null, join(folder, "a"))).not.toBe(platformSecret(null, join(folder, "b")));
  });

  it.each(["", "  \n", "short"])("is not %j: the file is left as it is, and said to be wrong", (content) => {
    writeFileSync(join(folder, "secret"), content);
    expect(() => platformSecret(null, folder)).toThrow(/does not hold the platform's secret/);
    expect(readFileSync(join(folder, "secret"), "utf8")).toBe(content);
  });

  it("that cannot be kept is a sentence that helps", () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    expect(() => platformSecret(null, file)).toThrow(/cannot be kept in .* \(ENOTDIR\).*SIGNALBOX_DATA_DIR/);
    expect(() => platformSecret(null, join(file, "below"))).toThrow(/SIGNALBOX_DATA_DIR/);
  });
});

describe("what follows from it", () => {
  it("is the same every time, and another for every purpose and secret", () => {
    expect(derive("secret", "join token")).toBe(derive("secret", "join token"));
    const values = [derive("secret", "a"), derive("secret", "b"), derive("other", "a")];
    expect(new Set(values).size).toBe(3);
    for (const value of values) expect(value).toMatch(/^[\w-]{43}$/);
  });
});
