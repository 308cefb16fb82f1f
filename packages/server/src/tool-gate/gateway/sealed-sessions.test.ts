import { describe, expect, it } from "vitest";
import { systemRandomness } from "../../system/ports.ts";
import { SealedSessions } from "./sealed-sessions.ts";

const SESSION = { upstreamId: "up-1", version: "2025-11-25", initialize: { clientInfo: { name: "é" } } };
const ANA = { principal: "ana", server: "docs" };

describe("session ids", () => {
  it("open in every process that shares the secret", () => {
    const id = new SealedSessions("s", systemRandomness).seal(SESSION, ANA);
    expect(id).toMatch(/^[\w-]+$/);
    expect(new SealedSessions("s", systemRandomness).open(id, ANA)).toEqual(SESSION);
  });

  it("open for nobody else, for no other server, and not when they were changed", () => {
    const sessions = new SealedSessions("s", systemRandomness);
    const id = sessions.seal(SESSION, ANA);
    expect(sessions.open(id, { ...ANA, principal: "ben" })).toBeNull();
    expect(sessions.open(id, { ...ANA, server: "mail" })).toBeNull();
    expect(new SealedSessions("t", systemRandomness).open(id, ANA)).toBeNull();
    expect(sessions.open(`${id.slice(0, -2)}AA`, ANA)).toBeNull();
    expect(sessions.open("made-up", ANA)).toBeNull();
    expect(sessions.open("A".repeat(7_000), ANA)).toBeNull();
  });
});
