import { expect, it } from "vitest";
import { readEgressAllow } from "./egress-allow.ts";
import { ConfigurationError } from "./environment.ts";

const read = (text: string) => readEgressAllow({ SIGNALBOX_EGRESS_ALLOW: text });

it("allows nothing besides the public network unless it is told to", () => {
  expect(readEgressAllow({})).toEqual({ names: [], networks: [] });
  expect(read(" , ")).toEqual({ names: [], networks: [] });
});

it("reads names, addresses and networks, and loopback by its name", () => {
  expect(read("Hooks.Corp, *.svc.cluster.local,10.0.0.0/8, 192.168.1.7,fd00:1::/64")).toEqual({
    names: ["hooks.corp", "*.svc.cluster.local"],
    networks: [
      { address: "10.0.0.0", prefix: 8 },
      { address: "192.168.1.7", prefix: 32 },
      { address: "fd00:1::", prefix: 64 },
    ],
  });
  expect(read("loopback")).toEqual({
    names: ["localhost"],
    networks: [
      { address: "127.0.0.0", prefix: 8 },
      { address: "::1", prefix: 128 },
    ],
  });
});

it.each(["http://hooks.corp", "10.0.0.0/33", "10.0.0", "*", "hooks.corp:8080", "10.0.0.0/8/8", "-x.corp"])(
  "says what is wrong with %s",
  (entry) => {
    expect(() => read(entry)).toThrow(ConfigurationError);
    expect(() => read(entry)).toThrow(entry);
  },
);
