import { describe, expect, it } from "vitest";
import { readConditions, UNCONDITIONAL, withoutRedacted } from "./call-conditions.ts";

describe("what a verdict demands of a call", () => {
  it("is nothing, or the tightest of what was said", () => {
    expect(readConditions(null)).toEqual(UNCONDITIONAL);
    expect(
      readConditions([
        { kind: "limit", timeoutMs: 900 },
        { kind: "limit", timeoutMs: 500, resultBytes: 300 },
        { kind: "redact", at: ["/iban"] },
      ]),
    ).toEqual({ timeoutMs: 500, resultBytes: 300, redacted: ["/iban"] });
  });

  it.each([[[{ kind: "encrypt" }]], [["limit"]], [[{ kind: "limit", timeoutMs: "soon" }]]])(
    "is not passed over when it cannot be read: %j",
    (given) => {
      expect(readConditions(given)).toBeNull();
    },
  );
});

describe("a result with hidden parts", () => {
  const secret = { name: "Ann", iban: "DE02", cards: [{ pan: "4111" }, { pan: "4242" }] };
  const shown = JSON.stringify({
    name: "Ann",
    iban: "[redacted]",
    cards: [{ pan: "[redacted]" }, { pan: "[redacted]" }],
  });
  const at = ["/iban", "/cards/*/pan"];

  it.each([
    ["structured content", { content: [{ type: "text", text: "Ann, DE02" }], structuredContent: secret }],
    ["text that is JSON", { content: [{ type: "text", text: JSON.stringify(secret) }] }],
  ])("is shown without them: %s", (_form, result) => {
    expect(withoutRedacted(result, at)).toEqual({ content: [{ type: "text", text: shown }] });
  });

  it.each([
    ["plain text", { content: [{ type: "text", text: "Ann, DE02" }] }],
    [
      "several blocks",
      {
        content: [
          { type: "text", text: JSON.stringify(secret) },
          { type: "text", text: "DE02" },
        ],
      },
    ],
    ["an image", { content: [{ type: "image", data: "REUwMg==", mimeType: "image/png" }] }],
  ])("is withheld where they cannot be found: %s", (_form, result) => {
    expect(JSON.stringify(withoutRedacted(result, at))).not.toMatch(/DE02|REUwMg|Ann/);
    expect(JSON.stringify(withoutRedacted(result, at))).toContain("withheld");
  });

  it("is left alone where nothing is hidden", () => {
    const result = { content: [{ type: "text", text: "DE02" }] };
    expect(withoutRedacted(result, [])).toBe(result);
  });
});
