import { describe, expect, it } from "vitest";
import { judgeClientCall, type ClientCallFacts } from "./client-call.ts";

const READ: ClientCallFacts = { clients: "classified", classified: true, effect: "read", approve: "policy" };

describe("what clients of the gateway may call", () => {
  it.each<[string, Partial<ClientCallFacts>, "allow" | "deny"]>([
    ["a tool with an effect class", {}, "allow"],
    ["one that writes", { effect: "write" }, "allow"],
    ["one that nobody classified", { classified: false, effect: "irreversible" }, "deny"],
    ["the same where the operator offers all", { clients: "all", classified: false, effect: "irreversible" }, "allow"],
    ["one whose effect cannot be taken back", { effect: "irreversible" }, "deny"],
    ["the same where nobody need be asked", { effect: "irreversible", approve: "never" }, "allow"],
    ["one that a person approves call by call", { approve: "always" }, "deny"],
    ["the same where the operator offers all", { clients: "all", approve: "always" }, "deny"],
    ["any of a server that is not for clients", { clients: "none", approve: "never" }, "deny"],
  ])("%s", (_, facts, kind) => {
    expect(judgeClientCall({ ...READ, ...facts }).kind).toBe(kind);
  });
});
