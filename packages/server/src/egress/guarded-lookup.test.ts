import type { LookupAddress } from "node:dns";
import { describe, expect, it } from "vitest";
import { EgressPolicy } from "./egress-policy.ts";
import { guardedLookup, type Resolver } from "./guarded-lookup.ts";

const PUBLIC: LookupAddress = { address: "93.184.215.14", family: 4 };
const PUBLIC_6: LookupAddress = { address: "2606:4700::1111", family: 6 };

/** Asks as `net.connect` does, and answers what it would connect to, or why not. */
function asked(
  answers: readonly (readonly LookupAddress[])[],
  options: {
    readonly policy?: EgressPolicy;
    readonly all?: boolean;
    readonly family?: number;
    readonly name?: string;
  } = {},
) {
  let count = 0;
  const resolver: Resolver = (_name, told) => told(null, answers[Math.min(count++, answers.length - 1)] ?? []);
  const lookup = guardedLookup(options.policy ?? new EgressPolicy(), resolver);
  const { all = true, family = 0, name = "hooks.example.com" } = options;
  return new Promise<unknown>((resolve) => {
    lookup(name, { all, family }, (error, address) => resolve(error === null ? address : error.message));
  });
}

describe("a name that is connected to", () => {
  it.each([true, false])("may not be found at all, as Node says it: with an error and no addresses", async (all) => {
    const failure = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });
    const lookup = guardedLookup(new EgressPolicy(), (_name, told) => told(failure));
    const told = await new Promise((resolve) => {
      lookup("nobody.example.com", { all }, (error) => resolve(error));
    });
    expect(told).toBe(failure);
  });

  it("leads to what its answer has", async () => {
    expect(await asked([[PUBLIC, PUBLIC_6]])).toEqual([PUBLIC, PUBLIC_6]);
    expect(await asked([[PUBLIC, PUBLIC_6]], { family: 6 })).toEqual([PUBLIC_6]);
    expect(await asked([[PUBLIC, PUBLIC_6]], { all: false })).toBe(PUBLIC.address);
    expect(await asked([[]])).toBe("hooks.example.com has no address");
  });

  it.each([
    ["127.0.0.1", 4],
    ["10.1.2.3", 4],
    ["169.254.169.254", 4],
    ["0.0.0.0", 4],
    ["100.64.1.1", 4],
    ["::1", 6],
    ["::ffff:10.0.0.1", 6],
    ["64:ff9b::a9fe:a9fe", 6],
    ["fd00::1", 6],
    ["fe80::1%eth0", 6],
  ])("is refused where one of its addresses is %s, whatever stands beside it", async (address, family) => {
    expect(await asked([[PUBLIC, { address, family }]])).toMatch(/^This address may not be called/);
    expect(await asked([[{ address, family }, PUBLIC]])).toMatch(/^This address may not be called/);
  });

  it("may lead into the operator's network where the operator has allowed the network or the name", async () => {
    const own: LookupAddress = { address: "10.1.2.3", family: 4 };
    const network = new EgressPolicy({ names: [], networks: [{ address: "10.0.0.0", prefix: 8 }] });
    expect(await asked([[own]], { policy: network })).toEqual([own]);
    const name = new EgressPolicy({ names: ["hooks.example.com"], networks: [] });
    expect(await asked([[own]], { policy: name })).toEqual([own]);
    expect(await asked([[own]], { policy: name, name: "other.example.com" })).toMatch(/private/);
    const metadata: LookupAddress = { address: "169.254.169.254", family: 4 };
    expect(await asked([[metadata]], { policy: name })).toMatch(/credentials/);
  });

  it("is not looked up at all where it is a name of a private network", async () => {
    expect(await asked([[PUBLIC]], { name: "metadata.google.internal" })).toMatch(/private network/);
  });
});
