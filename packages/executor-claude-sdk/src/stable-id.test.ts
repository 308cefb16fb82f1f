import { expect, test } from "vitest";
import { uuidFrom } from "./stable-id.ts";

test("an id follows from its names alone, and names do not run into one another", () => {
  expect(uuidFrom("session", "cnv_1", "1")).toBe(uuidFrom("session", "cnv_1", "1"));
  expect(uuidFrom("session", "cnv_1", "12")).not.toBe(uuidFrom("session", "cnv_11", "2"));
  expect(uuidFrom("a")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("ids stay what they are from release to release: stored transcripts refer to them", () => {
  expect(uuidFrom("message", "cnv_1", "trn_1", "3", "0")).toBe("f6baa803-17d3-8b2e-b842-6fc489d7ff14");
});
