import { describe, expect, it } from "vitest";
import { judgeClientCall } from "./client-call.ts";

describe("what clients of the gateway may call", () => {
  it.each([
    ["all", true, "allow"],
    ["all", false, "allow"],
    ["classified", true, "allow"],
    ["classified", false, "deny"],
    ["none", true, "deny"],
    ["none", false, "deny"],
  ] as const)("of a server for %s, a tool that is classified (%s): %s", (clients, classified, kind) => {
    expect(judgeClientCall({ clients, classified }).kind).toBe(kind);
  });
});
