import { describe, expect, it } from "vitest";
import { isItemList, ItemStore } from "./item-store.ts";

const a = { role: "user", text: "a" };
const b = { role: "assistant", text: "b" };
const c = { role: "user", text: "c" };

function reopened(store: ItemStore): ItemStore {
  const next = new ItemStore("", "salt2");
  for (const entry of store.pending()) {
    next.load(entry);
  }
  return next;
}

describe("item store", () => {
  it("keeps every element once and a list as runs", () => {
    const store = new ItemStore("", "salt");
    expect(store.encode([a, b]).runs.map(([, count]) => count)).toEqual([2]);
    expect(store.encode([a, b, c, { ...a }]).runs.map(([, count]) => count)).toEqual([3, 1]);
    expect(store.pending().map(({ body }) => JSON.parse(Buffer.from(body).toString()) as unknown)).toEqual([a, b, c]);
    store.written();
    expect(store.pending()).toEqual([]);
  });

  it("gives a list back from what is durable", () => {
    const store = new ItemStore("", "salt");
    const list = store.encode([a, c, b, a]);
    expect(reopened(store).decode(list)).toEqual([a, c, b, a]);
  });

  it("writes nothing again that another opening wrote, and keeps new ids apart from those it lost", () => {
    const store = new ItemStore("", "salt");
    store.encode([a, b]);
    const next = reopened(store);
    next.encode([a, b, c]);
    const [entry] = next.pending();
    expect(next.pending()).toHaveLength(1);
    expect(entry?.entryId).toMatch(/\.salt2$/);
  });

  it("notices a missing element, one in another's place, and one that was changed", () => {
    const store = new ItemStore("", "salt");
    const list = store.encode([a, b, c]);
    const entries = store.pending();
    const without = (at: number): ItemStore => {
      const next = new ItemStore("", "salt2");
      for (const entry of entries.filter((_, index) => index !== at)) {
        next.load(entry);
      }
      return next;
    };
    expect(() => without(0).decode(list)).toThrow(/lacks a message/);
    expect(() => without(1).decode(list)).toThrow(/lacks a message/);
    const longer = new ItemStore("", "x");
    longer.encode([a, c, b]);
    expect(() => reopened(longer).decode(list)).toThrow(/lacks a message|not those of its checkpoint/);
    const [first] = entries;
    const changed = { ...first!, body: Buffer.from('{"role":"user","text":"other"}') };
    expect(() => new ItemStore("", "x").load(changed)).toThrow(/not what its id says/);
  });

  it("takes only plain objects for elements", () => {
    expect(isItemList([a])).toBe(true);
    expect([[], ["a"], [a, 1], [new Date()], [null], a].map(isItemList)).toEqual([
      false,
      false,
      false,
      false,
      false,
      false,
    ]);
  });
});
