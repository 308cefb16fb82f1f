import { PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { EgressPolicy } from "./egress-policy.ts";
import { checkUrl } from "./url-guard.ts";

const NOBODY = new EgressPolicy();
const LOOPBACK = new EgressPolicy({
  names: ["localhost", "hooks.corp", "*.cluster.local"],
  networks: [
    { address: "127.0.0.0", prefix: 8 },
    { address: "::1", prefix: 128 },
    { address: "10.20.0.0", prefix: 16 },
    { address: "0.0.0.0", prefix: 0 },
  ],
});

function codeOf(text: string, policy: EgressPolicy): string {
  try {
    return checkUrl(text, policy).url.href;
  } catch (thrown) {
    return thrown instanceof PlatformError ? `${thrown.code}: ${thrown.detail}` : String(thrown);
  }
}

const REFUSED: readonly (readonly [form: string, url: string, why: RegExp])[] = [
  ["loopback", "https://127.0.0.1/", /loopback/],
  ["loopback elsewhere in its network", "https://127.255.3.4/", /loopback/],
  ["loopback in two parts", "https://127.1/", /loopback/],
  ["loopback as one decimal number", "https://2130706433/", /loopback/],
  ["loopback in octal", "https://0177.0.0.1/", /loopback/],
  ["loopback as one octal number", "https://017700000001/", /loopback/],
  ["loopback in hexadecimal", "https://0x7f.1/", /loopback/],
  ["loopback as one hexadecimal number", "https://0x7f000001/", /loopback/],
  ["loopback in mixed bases", "https://0x7f.0.01.1/", /loopback/],
  ["loopback with a dot at its end", "https://127.0.0.1./", /loopback/],
  ["loopback in percent signs", "https://%31%32%37.0.0.1/", /loopback/],
  ["loopback in full-width digits", "https://１２７.0.0.1/", /loopback/],
  ["loopback in circled digits", "https://①②⑦.⓪.⓪.①/", /loopback/],
  ["loopback with ideographic dots", "https://127。0。0。1/", /loopback/],
  ["loopback with half-width dots", "https://127｡0｡0｡1/", /loopback/],
  ["unspecified", "https://0.0.0.0/", /unspecified/],
  ["unspecified as one digit", "https://0/", /unspecified/],
  ["this network", "https://0.1.2.3/", /unspecified/],
  ["private 10/8", "https://10.0.0.5/", /private/],
  ["private 172.16/12", "https://172.31.255.1/", /private/],
  ["private 192.168/16", "https://192.168.1.1/", /private/],
  ["private as one number", "https://3232235777/", /private/],
  ["carrier grade NAT", "https://100.64.0.1/", /shared/],
  ["link local", "https://169.254.1.1/", /link local/],
  ["cloud metadata", "https://169.254.169.254/latest/meta-data/", /credentials/],
  ["cloud metadata in hexadecimal", "https://0xa9fea9fe/", /credentials/],
  ["container credentials", "https://169.254.170.2/", /credentials/],
  ["Alibaba's metadata, in the shared range", "https://100.100.100.200/", /credentials/],
  ["Azure's wire server, outside every range", "https://168.63.129.16/", /credentials/],
  ["multicast", "https://224.0.0.1/", /multicast/],
  ["broadcast", "https://255.255.255.255/", /reserved/],
  ["reserved for ever", "https://240.0.0.1/", /reserved/],
  ["protocol assignments", "https://192.0.0.8/", /reserved/],
  ["documentation", "https://203.0.113.9/", /reserved/],
  ["benchmarks", "https://198.18.0.1/", /reserved/],
  ["6to4 relays", "https://192.88.99.1/", /reserved/],
  ["a database", "https://example.com:5432/", /5432 is not one of the web/],
  ["a cache", "https://example.com:6379/", /6379 is not one of the web/],
  ["IPv6 loopback", "https://[::1]/", /loopback/],
  ["IPv6 loopback in full", "https://[0:0:0:0:0:0:0:1]/", /loopback/],
  ["IPv6 unspecified", "https://[::]/", /unspecified/],
  ["IPv4 mapped", "https://[::ffff:127.0.0.1]/", /loopback/],
  ["IPv4 mapped in hexadecimal", "https://[::ffff:7f00:1]/", /loopback/],
  ["IPv4 mapped metadata", "https://[::ffff:a9fe:a9fe]/", /credentials/],
  ["IPv4 compatible", "https://[::127.0.0.1]/", /reserved/],
  ["IPv4 translated", "https://[::ffff:0:7f00:1]/", /reserved/],
  ["NAT64 of loopback", "https://[64:ff9b::7f00:1]/", /loopback/],
  ["NAT64 of a private address", "https://[64:ff9b::10.0.0.1]/", /private/],
  ["NAT64 for local use", "https://[64:ff9b:1::808:808]/", /reserved/],
  ["6to4", "https://[2002:7f00:1::]/", /reserved/],
  ["Teredo", "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", /reserved/],
  ["unique local", "https://[fd00::8]/", /private/],
  ["unique local, the other half", "https://[fc00::1]/", /private/],
  ["AWS metadata over IPv6", "https://[fd00:ec2::254]/", /credentials/],
  ["IPv6 link local", "https://[fe80::1]/", /link local/],
  ["IPv6 site local", "https://[fec0::1]/", /private/],
  ["IPv6 multicast", "https://[ff02::1]/", /multicast/],
  ["IPv6 documentation", "https://[2001:db8::1]/", /reserved/],
  ["IPv6 that nobody was given", "https://[4000::1]/", /reserved/],
  ["localhost", "https://localhost/", /private network/],
  ["localhost in capitals", "https://LocalHost/", /private network/],
  ["localhost with a dot at its end", "https://localhost./", /private network/],
  ["below localhost", "https://api.localhost/", /private network/],
  ["a name without a dot", "https://postgres/", /private network/],
  ["mDNS", "https://printer.local/", /private network/],
  ["a cluster's service", "https://api.default.svc.cluster.local/", /private network/],
  ["metadata by its name", "https://metadata.google.internal/", /private network/],
  ["a home's name", "https://router.home.arpa/", /private network/],
  ["an empty label", "https://example..com/", /looked up/],
  ["two dots at its end", "https://example.com../", /looked up/],
  ["a user name", "https://user@example.com/", /user name/],
  ["a host as user name", "https://example.com@127.0.0.1/", /user name/],
  ["a user name that is empty but for its password", "https://:x@example.com/", /user name/],
  ["in the clear", "http://example.com/", /https/],
  ["a file", "file:///etc/passwd", /https/],
  ["gopher", "gopher://example.com/", /https/],
  ["ftp", "ftp://example.com/", /https/],
  ["a data URL", "data:text/plain,hi", /complete URL/],
  ["a script", "javascript:alert(1)", /complete URL/],
  ["no scheme", "example.com/hooks", /complete URL/],
  ["a scheme without slashes", "https:example.com", /complete URL/],
  ["no host", "https://", /complete URL/],
  ["a port of mail", "https://example.com:25/", /port 25/],
  ["a port of SSH", "https://example.com:22/", /port 22/],
  ["port 0", "https://example.com:0/", /port 0/],
  ["a port of IRC", "https://example.com:6667/", /port 6667/],
  ["a port that is none", "https://example.com:99999/", /complete URL/],
  ["a backslash", "https://example.com\\@127.0.0.1/", /backslash/],
  ["a line break in the host", "https://exam\nple.com/", /control/],
  ["a tab before the host", "https://\t127.0.0.1/", /control/],
  ["a space before it", " https://example.com/", /space/],
  ["far too long", `https://example.com/${"a".repeat(2_048)}`, /longer/],
];

const ALLOWED: readonly (readonly [form: string, url: string, href: string])[] = [
  ["a name", "https://example.com/hooks?a=1", "https://example.com/hooks?a=1"],
  ["a name with a dot at its end", "https://example.com./hooks", "https://example.com./hooks"],
  ["an international name", "https://bücher.example.com/", "https://xn--bcher-kva.example.com/"],
  ["another port", "https://example.com:8443/", "https://example.com:8443/"],
  ["an unprivileged port", "https://example.com:3000/", "https://example.com:3000/"],
  ["a public address", "https://93.184.215.14/", "https://93.184.215.14/"],
  ["a public IPv6 address", "https://[2606:4700::1111]/", "https://[2606:4700::1111]/"],
  ["NAT64 of a public address", "https://[64:ff9b::808:808]/", "https://[64:ff9b::808:808]/"],
  ["an address next to a private one", "https://172.32.0.1/", "https://172.32.0.1/"],
  ["an address next to the shared ones", "https://100.128.0.1/", "https://100.128.0.1/"],
];

describe("an address that a tenant gives", () => {
  it.each(REFUSED)("is refused: %s", (_form, url, why) => {
    const told = codeOf(url, NOBODY);
    expect(told).toMatch(/^address_refused: This address may not be called: /);
    expect(told).toMatch(why);
  });

  it.each(ALLOWED)("is allowed: %s", (_form, url, href) => {
    expect(codeOf(url, NOBODY)).toBe(href);
  });
});

describe("what the operator allows besides", () => {
  it.each([
    ["loopback", "https://127.0.0.1:4000/", "https://127.0.0.1:4000/"],
    ["loopback in the clear", "http://127.0.0.1:4000/x", "http://127.0.0.1:4000/x"],
    ["loopback as one number, which is the same", "http://2130706433:4000/", "http://127.0.0.1:4000/"],
    ["loopback of IPv6", "http://[::1]:4000/", "http://[::1]:4000/"],
    ["a network", "https://10.20.3.4/", "https://10.20.3.4/"],
    ["a name", "http://localhost:8080/", "http://localhost:8080/"],
    ["a name of its own network", "https://hooks.corp/", "https://hooks.corp/"],
    ["everything below a name", "https://api.default.svc.cluster.local/", "https://api.default.svc.cluster.local/"],
  ])("is called: %s", (_form, url, href) => {
    expect(codeOf(url, LOOPBACK)).toBe(href);
  });

  it.each([
    ["a cloud's credentials, whatever network was allowed", "https://169.254.169.254/", /credentials/],
    ["a cloud's credentials in another form", "https://[::ffff:169.254.169.254]/", /credentials/],
    ["another name", "https://billing.corp/", /private network/],
    ["the name itself, where only what is below it was allowed", "https://cluster.local/", /private network/],
    ["a name that only ends alike", "http://evilhooks.corp/", /private network/],
    ["a port of another protocol", "http://127.0.0.1:25/", /port 25/],
  ])("goes no further: %s", (_form, url, why) => {
    expect(codeOf(url, LOOPBACK)).toMatch(why);
  });
});
