import { describe, expect, it } from "vitest";
import { hostsOf, refusedHost } from "./host-rule.ts";

describe("from where the gateway may be asked", () => {
  it.each([
    ["localhost:4620", undefined],
    ["127.0.0.1:4620", "http://localhost:3000"],
    ["[::1]:4620", "http://[::1]:4620"],
    ["10.0.0.7", undefined],
  ])("here: %s from %s", (host, origin) => {
    expect(refusedHost({ host, ...(origin === undefined ? {} : { origin }) }, [])).toBeNull();
  });

  it.each([
    ["evil.example.com", undefined],
    ["localhost:4620", "http://evil.example.com"],
    ["localhost.evil.example.com", undefined],
    ["127.0.0.1:4620", "null"],
    ["", undefined],
  ])("not: %s from %s", (host, origin) => {
    expect(refusedHost({ host, ...(origin === undefined ? {} : { origin }) }, [])).not.toBeNull();
  });

  it("names of the operator's are known, and every name where the operator named none and stands in front", () => {
    expect(
      refusedHost({ host: "tools.example.org", origin: "https://tools.example.org" }, ["tools.example.org"]),
    ).toBeNull();
    expect(refusedHost({ host: "other.example.org" }, ["tools.example.org"])).not.toBeNull();
    expect(hostsOf([], "127.0.0.1")).toEqual([]);
    expect(refusedHost({ host: "platform:4620" }, hostsOf([], "0.0.0.0"))).toBeNull();
    expect(
      refusedHost({ host: "platform:4620", origin: "http://evil.example.com" }, hostsOf([], "0.0.0.0")),
    ).not.toBeNull();
  });
});
