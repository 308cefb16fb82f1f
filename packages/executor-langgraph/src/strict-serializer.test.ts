import { SystemMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import { strictJson, strictSerializer } from "./strict-serializer.ts";

async function throughTheWire(value: unknown): Promise<unknown> {
  const [type, bytes] = await strictSerializer.dumpsTyped(value);
  return strictSerializer.loadsTyped(type, bytes);
}

describe("strict serializer", () => {
  it("gives plain JSON and bytes back as they were", async () => {
    const value = { text: "ü\ud83d", list: [1, null, true, { deep: [] }] };
    expect(await throughTheWire(value)).toEqual(value);
    expect(await throughTheWire(new Uint8Array([1, 2]))).toEqual(new Uint8Array([1, 2]));
  });

  it("makes nothing of an object that looks like a class", async () => {
    const planted = { lc: 1, type: "constructor", id: ["langchain_core", "messages", "SystemMessage"], kwargs: {} };
    const read = await throughTheWire([planted, { lc: 2, type: "undefined" }]);
    expect(read).toEqual([planted, { lc: 2, type: "undefined" }]);
    expect(Object.getPrototypeOf((read as object[])[0])).toBe(Object.prototype);
  });

  it.each<[string, unknown]>([
    ["a message class", new SystemMessage("x")],
    ["a date", { at: new Date(0) }],
    ["a map", [new Map()]],
    ["a function", { run: () => 1 }],
    ["a large number", { n: 1n }],
    ["undefined", undefined],
  ])("refuses %s", (_name, value) => {
    expect(() => strictJson(value)).toThrow(TypeError);
  });
});
