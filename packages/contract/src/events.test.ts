import { describe, expect, it } from "vitest";
import {
  EVENT_SCHEMAS,
  OWNER_EVENT_TYPES,
  platformEventSchema,
  revisionOf,
  REVISIONS_PER_GENERATION,
} from "./events.ts";

const ENVELOPE = {
  itemId: "itm_1",
  sequence: 7,
  revision: 1_048_577,
  conversationId: "cnv_1",
  runId: "run_1",
  turnId: null,
  traceId: null,
  generation: 1,
  at: "2026-03-01T12:00:00.000Z",
};

describe("events", () => {
  it("are all part of the one schema that readers parse with", () => {
    const known = platformEventSchema.options.map((option) => option.shape.type.value);
    expect(known.toSorted()).toEqual(Object.keys(EVENT_SCHEMAS).toSorted());
  });

  it("are named noun.verb, and each has its own name in the API's description", () => {
    const names = Object.entries(EVENT_SCHEMAS).map(([type, schema]) => {
      expect(type).toMatch(/^[a-z]+\.[a-z]+$/);
      return schema.meta()?.id;
    });
    expect(new Set(names).size).toBe(names.length);
    expect(names).not.toContain(undefined);
  });

  it("have a sequence from 1, or none while they are only live", () => {
    const delta = { ...ENVELOPE, type: "text.delta", offset: 0, text: "hello" };
    expect(platformEventSchema.safeParse(delta).success).toBe(true);
    expect(platformEventSchema.safeParse({ ...delta, sequence: null }).success).toBe(true);
    expect(platformEventSchema.safeParse({ ...delta, sequence: 0 }).success).toBe(false);
    expect(platformEventSchema.safeParse({ ...delta, sequence: 1.5 }).success).toBe(false);
  });

  it("of a newer release are readable when they only say more", () => {
    const finished = {
      type: "run.finished",
      outcome: "completed",
      reason: "answered",
      error: null,
      messageId: "msg_1",
    };
    expect(platformEventSchema.parse({ ...ENVELOPE, ...finished, mood: "good" })).toEqual({ ...ENVELOPE, ...finished });
  });

  it("of a type that does not exist yet do not parse", () => {
    expect(platformEventSchema.safeParse({ ...ENVELOPE, type: "weather.changed" }).success).toBe(false);
  });

  it("written by owners exist", () => {
    for (const type of OWNER_EVENT_TYPES) expect(EVENT_SCHEMAS).toHaveProperty([type]);
  });
});

describe("revisionOf", () => {
  it("lets whatever a later owner says replace the last word of an earlier one", () => {
    expect(revisionOf(3, REVISIONS_PER_GENERATION - 1)).toBeLessThan(revisionOf(4, 0));
  });

  it("stays exact for more generations than any conversation will see", () => {
    expect(Number.isSafeInteger(revisionOf(2 ** 32, REVISIONS_PER_GENERATION - 1))).toBe(true);
  });
});
