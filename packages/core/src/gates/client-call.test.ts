import { describe, expect, it } from "vitest";
import { judgeClientCall, type ClientCallFacts } from "./client-call.ts";

describe("what clients of the gateway are offered", () => {
  it.each<[string, ClientCallFacts, "allow" | "deny"]>([
    ["a tool with an effect class", { clients: "classified", classified: true }, "allow"],
    ["one that nobody classified", { clients: "classified", classified: false }, "deny"],
    ["the same where the operator offers all", { clients: "all", classified: false }, "allow"],
    ["any of a server that is not for clients", { clients: "none", classified: true }, "deny"],
  ])("%s", (_, facts, kind) => {
    expect(judgeClientCall(facts).kind).toBe(kind);
  });
});
