import { describe, expect, it } from "vitest";
import { DEFAULT_ROLES, demandNeighbours, rolesOf, type Surroundings } from "./roles.ts";

const ALONE: Surroundings = { roles: DEFAULT_ROLES, gatesUrl: null, platformUrl: null, joinToken: null };

describe("the roles of a process", () => {
  it("are mixed freely, named in any order", () => {
    expect(rolesOf(null)).toEqual(["api", "gates", "supervisor"]);
    expect(rolesOf("worker, api")).toEqual(["api", "worker"]);
    expect(() => rolesOf("api,")).toThrow(/There is no role ""/);
  });

  it("need the addresses of what runs elsewhere, and nothing where everything is here", () => {
    expect(() => demandNeighbours(ALONE)).not.toThrow();
    expect(() => demandNeighbours({ ...ALONE, roles: ["api"] })).not.toThrow();
    expect(() => demandNeighbours({ ...ALONE, roles: ["supervisor", "worker"] })).toThrow(/SIGNALBOX_GATES_URL/);
    expect(() => demandNeighbours({ ...ALONE, roles: ["supervisor"], gatesUrl: "http://g:1" })).not.toThrow();
    expect(() => demandNeighbours({ ...ALONE, roles: ["worker"] })).toThrow(/SIGNALBOX_PLATFORM_URL/);
    const worker = { ...ALONE, roles: ["worker"] as const, platformUrl: "http://s:1" };
    expect(() => demandNeighbours(worker)).toThrow(/SIGNALBOX_JOIN_TOKEN/);
    expect(() => demandNeighbours({ ...worker, joinToken: "a long enough token" })).not.toThrow();
  });
});
