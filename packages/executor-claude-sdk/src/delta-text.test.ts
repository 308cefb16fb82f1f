import fc from "fast-check";
import { wellFormed } from "@signalbox/contract";
import { expect, test } from "vitest";
import { DeltaText } from "./delta-text.ts";

function through(pieces: readonly string[]): { readonly given: readonly string[]; readonly text: string } {
  const delta = new DeltaText();
  const given = [...pieces.map((piece) => delta.push(piece)), delta.end()];
  return { given, text: delta.text };
}

test("a pair cut in two by the stream is given out whole", () => {
  expect(through(["ok \ud83d", "\ude80!"]).given).toEqual(["ok ", "🚀!", ""]);
});

test("half a pair that stays alone is replaced where it stands", () => {
  expect(through(["a\ud83d", "b", "\ude80", "c\ud83d"]).text).toBe("a\ufffdb\ufffdc\ufffd");
  expect(through(["\ud83d\ud83d", "\ude80"]).text).toBe("\ufffd🚀");
});

test("however a text is cut, its pieces are well-formed and say what the whole says", () => {
  const unit = fc.oneof(fc.constantFrom(0, 0x61, 0xd83d, 0xde80, 0xdbff, 0xdc00, 0xffff), fc.nat(0xffff));
  const text = fc.array(unit, { maxLength: 40 }).map((units) => String.fromCharCode(...units));
  fc.assert(
    fc.property(text, fc.array(fc.nat(6), { maxLength: 40 }), (whole, sizes) => {
      const pieces: string[] = [];
      let at = 0;
      for (const size of [...sizes, whole.length]) {
        pieces.push(whole.slice(at, at + size));
        at += size;
      }
      const { given, text: shown } = through(pieces);
      expect(given.join("")).toBe(shown);
      expect(shown).toBe(wellFormed(whole));
      expect(given.every((piece) => piece.isWellFormed() && !piece.includes("\u0000"))).toBe(true);
    }),
  );
});
