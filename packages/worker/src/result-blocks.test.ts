import { describe, expect, it } from "vitest";
import { modelBlocks } from "./result-blocks.ts";

const read = (...content: Parameters<typeof modelBlocks>[0]): readonly unknown[] => modelBlocks(content);

describe("what a model reads of a tool", () => {
  it("is never empty", () => {
    const nothing = [{ type: "text", text: "(no output)" }];
    expect(read()).toEqual(nothing);
    expect(read({ type: "text", text: "" }, { type: "text", text: " \n" })).toEqual(nothing);
  });

  it("has images it can look at, and says what it cannot read", () => {
    expect(read({ type: "image", data: "AAAA", mimeType: "image/png" })).toEqual([
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
    ]);
    expect(read({ type: "image", data: "AAAA", mimeType: "image/tiff" })).toEqual([
      { type: "text", text: "[an image of type image/tiff, which the model cannot read]" },
    ]);
    expect(read({ type: "audio", data: "AAAA" })).toEqual([
      { type: "text", text: "[content of type audio, which the model cannot read]" },
    ]);
  });

  it("has the text of a resource, or where it is", () => {
    expect(read({ type: "resource", resource: { text: "inside", uri: "x:1" } })).toEqual([
      { type: "text", text: "inside" },
    ]);
    expect(read({ type: "resource_link", uri: "x:2" })).toEqual([{ type: "text", text: "[resource x:2]" }]);
  });
});
