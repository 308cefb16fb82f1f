/** What kind of address an IP address is, whatever it is written as: what is no public address names no public host. */
import { BlockList, isIP } from "node:net";

export type AddressKind =
  | "public"
  | "loopback"
  | "private"
  | "shared"
  | "link_local"
  | "metadata"
  | "multicast"
  | "unspecified"
  | "reserved";

export interface Address {
  /** An IPv4 address that an IPv6 one stands for is written as what it is. */
  readonly text: string;
  readonly family: "ipv4" | "ipv6";
  readonly kind: AddressKind;
}

type Family = Address["family"];
type Range = readonly [kind: Exclude<AddressKind, "public">, family: Family, network: string, prefix: number];

/** IANA's registries of special-purpose addresses; the first range that fits is what an address is. */
const SPECIAL: readonly Range[] = [
  // Where clouds answer whoever asks with the credentials of the machine.
  ["metadata", "ipv4", "169.254.169.254", 32],
  ["metadata", "ipv4", "169.254.170.2", 32],
  ["metadata", "ipv4", "169.254.170.23", 32],
  ["metadata", "ipv4", "100.100.100.200", 32],
  ["metadata", "ipv4", "168.63.129.16", 32],
  ["metadata", "ipv4", "192.0.0.192", 32],
  ["metadata", "ipv6", "fd00:ec2::", 32],
  ["metadata", "ipv6", "fd20:ce::254", 128],
  ["unspecified", "ipv4", "0.0.0.0", 8],
  ["loopback", "ipv4", "127.0.0.0", 8],
  ["private", "ipv4", "10.0.0.0", 8],
  ["private", "ipv4", "172.16.0.0", 12],
  ["private", "ipv4", "192.168.0.0", 16],
  ["shared", "ipv4", "100.64.0.0", 10],
  ["link_local", "ipv4", "169.254.0.0", 16],
  ["reserved", "ipv4", "192.0.0.0", 24],
  ["reserved", "ipv4", "192.0.2.0", 24],
  ["reserved", "ipv4", "192.88.99.0", 24],
  ["reserved", "ipv4", "198.18.0.0", 15],
  ["reserved", "ipv4", "198.51.100.0", 24],
  ["reserved", "ipv4", "203.0.113.0", 24],
  ["multicast", "ipv4", "224.0.0.0", 4],
  ["reserved", "ipv4", "240.0.0.0", 4],
  ["unspecified", "ipv6", "::", 128],
  ["loopback", "ipv6", "::1", 128],
  ["private", "ipv6", "fc00::", 7],
  ["link_local", "ipv6", "fe80::", 10],
  ["private", "ipv6", "fec0::", 10],
  ["multicast", "ipv6", "ff00::", 8],
  // Protocol assignments, Teredo among them; documentation; 6to4, which carries any IPv4 address inside.
  ["reserved", "ipv6", "2001::", 23],
  ["reserved", "ipv6", "2001:db8::", 32],
  ["reserved", "ipv6", "2002::", 16],
  ["reserved", "ipv6", "3fff::", 20],
];

const LISTS = SPECIAL.map(([kind, family, network, prefix]) => {
  const list = new BlockList();
  list.addSubnet(network, prefix, family);
  return { kind, family, list };
});

const GLOBAL_UNICAST = new BlockList();
GLOBAL_UNICAST.addSubnet("2000::", 3, "ipv6");

/** The first 96 bits of IPv6 addresses that stand for the IPv4 address in the last 32: mapped, and translated (NAT64). */
const CARRIERS: readonly (readonly number[])[] = [
  [0, 0, 0, 0, 0, 0xffff],
  [0x64, 0xff9b, 0, 0, 0, 0],
];

/** `null` for what is no IP address. */
export function addressOf(text: string): Address | null {
  // A zone names an interface of this machine, and no address.
  const bare = text.split("%", 1)[0] ?? "";
  const version = isIP(bare);
  if (version === 0) return null;
  if (version === 4) return { text: bare, family: "ipv4", kind: kindOf(bare, "ipv4") };
  const carried = carriedIpv4(groupsOf(bare));
  if (carried !== null) return { text: carried, family: "ipv4", kind: kindOf(carried, "ipv4") };
  return { text: bare, family: "ipv6", kind: kindOf(bare, "ipv6") };
}

function kindOf(text: string, family: Family): AddressKind {
  const special = LISTS.find((each) => each.family === family && each.list.check(text, family));
  if (special !== undefined) return special.kind;
  // Of IPv6 only this eighth was ever given out.
  return family === "ipv4" || GLOBAL_UNICAST.check(text, "ipv6") ? "public" : "reserved";
}

function carriedIpv4(groups: readonly number[]): string | null {
  const [high, low] = groups.slice(6);
  const carrier = CARRIERS.some((prefix) => prefix.every((group, place) => groups[place] === group));
  if (!carrier || high === undefined || low === undefined) return null;
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}

/** The eight groups of a valid IPv6 address. */
function groupsOf(text: string): readonly number[] {
  const [head = "", tail] = text.split("::", 2);
  const before = readGroups(head);
  if (tail === undefined) return before;
  const after = readGroups(tail);
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after];
}

function readGroups(text: string): number[] {
  return text.split(":").flatMap((part) => {
    if (part === "") return [];
    if (!part.includes(".")) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split(".").map(Number);
    return [a * 256 + b, c * 256 + d];
  });
}
