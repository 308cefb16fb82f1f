import { expect, it } from "vitest";
import { createSealer } from "./sealer.ts";

const sealer = createSealer("a secret of the platform", "tests");

it("gives back what it sealed, and shows nothing of it meanwhile", () => {
  const sealed = sealer.seal("whsec_é", "whk_1");
  expect(sealer.open(sealed, "whk_1")).toBe("whsec_é");
  expect(sealed.toString("latin1")).not.toContain("whsec");
  expect(sealer.seal("whsec_é", "whk_1")).not.toEqual(sealed);
});

it("opens nothing that was moved, altered, cut, or sealed by another key", () => {
  const sealed = sealer.seal("whsec_é", "whk_1");
  expect(sealer.open(sealed, "whk_2")).toBeNull();
  for (const place of [0, 5, 20, sealed.length - 1]) {
    const altered = Buffer.from(sealed);
    altered[place] = (altered[place] ?? 0) ^ 1;
    expect(sealer.open(altered, "whk_1")).toBeNull();
  }
  expect(sealer.open(sealed.subarray(0, 20), "whk_1")).toBeNull();
  for (const other of [createSealer("another secret", "tests"), createSealer("a secret of the platform", "else")]) {
    expect(other.open(sealed, "whk_1")).toBeNull();
    expect(other.keyId).not.toBe(sealer.keyId);
  }
});
