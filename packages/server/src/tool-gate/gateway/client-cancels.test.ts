import { expect, test } from "vitest";
import { ClientCancels } from "./client-cancels.ts";

test("a cancel cuts the one call it can mean, and no call of two", () => {
  const cancels = new ClientCancels();
  const cut: string[] = [];
  const first = cancels.begin("key 1", () => cut.push("first"));
  const other = cancels.begin("key 2", () => cut.push("other"));
  const second = cancels.begin("key 1", () => cut.push("second"));
  cancels.cancel("key 1");
  expect(cut).toEqual([]);
  first[Symbol.dispose]();
  cancels.cancel("key 1");
  expect(cut).toEqual(["second"]);
  second[Symbol.dispose]();
  other[Symbol.dispose]();
  for (const key of ["key 1", "key 2", "key 3"]) cancels.cancel(key);
  expect(cut).toEqual(["second"]);
});
