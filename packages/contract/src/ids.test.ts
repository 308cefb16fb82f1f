import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ID_PREFIX, isId, makeId, parseId, uuidV7Bytes, type IdKind } from "./ids.ts";

const random = fc.uint8Array({ minLength: 10, maxLength: 10 });
const atMs = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const kind = fc.constantFrom(...(Object.keys(ID_PREFIX) as IdKind[]));

describe("uuidV7Bytes", () => {
  it("writes the example of RFC 9562 A.6", () => {
    const bytes = uuidV7Bytes(
      0x017f22e279b0,
      Uint8Array.from([0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f]),
    );
    expect(Buffer.from(bytes).toString("hex")).toBe("017f22e279b07cc398c4dc0c0c07398f");
  });

  it("marks version and variant whatever the time and the randomness", () => {
    fc.assert(
      fc.property(atMs, random, (at, bytes) => {
        const hex = Buffer.from(uuidV7Bytes(at, bytes)).toString("hex");
        expect(hex[12]).toBe("7");
        expect(["8", "9", "a", "b"]).toContain(hex[16]);
        expect(Number.parseInt(hex.slice(0, 12), 16)).toBe(at);
      }),
    );
  });

  it("refuses too little randomness, and times that do not fit", () => {
    expect(() => uuidV7Bytes(0, new Uint8Array(9))).toThrow(RangeError);
    for (const at of [-1, 2 ** 48, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => uuidV7Bytes(at, new Uint8Array(10))).toThrow(RangeError);
    }
  });
});

describe("ids", () => {
  it("of one kind sort by creation", () => {
    fc.assert(
      fc.property(kind, fc.tuple(atMs, random), fc.tuple(atMs, random), (of, first, second) => {
        fc.pre(first[0] < second[0]);
        expect(makeId(of, uuidV7Bytes(...first)) < makeId(of, uuidV7Bytes(...second))).toBe(true);
      }),
    );
  });

  it("are known by their own kind and by no other", () => {
    fc.assert(
      fc.property(kind, atMs, random, (of, at, bytes) => {
        const id = makeId(of, uuidV7Bytes(at, bytes));
        expect(parseId(of, id)).toBe(id);
        for (const other of Object.keys(ID_PREFIX) as IdKind[]) expect(isId(other, id)).toBe(other === of);
      }),
    );
  });

  it.each([
    "",
    "cnv_",
    "cnv_0123456789abcdef0123456789abcde",
    "cnv_0123456789abcdef0123456789abcdef0",
    "cnv_0123456789ABCDEF0123456789ABCDEF",
    "CNV_0123456789abcdef0123456789abcdef",
    "cnv-0123456789abcdef0123456789abcdef",
    "cnv_01234567-89ab-cdef-0123-456789abcdef",
    "cnv_0123456789abcdef0123456789abcdef\n",
    "run_0123456789abcdef0123456789abcdef",
  ])("refuses %j as a conversation", (text) => {
    expect(isId("conversation", text)).toBe(false);
    expect(parseId("conversation", text)).toBeNull();
  });

  it("are never made of anything but 16 bytes", () => {
    expect(() => makeId("run", new Uint8Array(15))).toThrow(RangeError);
    expect(() => makeId("run", new Uint8Array(17))).toThrow(RangeError);
  });
});
