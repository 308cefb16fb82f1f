/**
 * Every address that a tenant gives passes here before it is kept, and again before it is called. It is read by the same
 * parser that the connection is made with, so that what was judged is what is called: decimal, octal and hexadecimal
 * forms, percent signs and foreign dots are all read before anything is decided.
 */
import { PlatformError } from "@signalbox/contract";
import { isIP } from "node:net";
import type { EgressPolicy } from "./egress-policy.ts";

const URL_CHARS_MAX = 2_048;
/** Parsers differ about these, or take them away without a word. */
// oxlint-disable-next-line no-control-regex
const AMBIGUOUS = /[\u0000-\u0020\u007f\\]/;
const WEB_PORTS = [80, 443];
const UNPRIVILEGED_PORT = 1_024;
/**
 * Above the privileged ones: ports that browsers refuse, and those of databases, caches and brokers. What listens there
 * may take a request for its own commands, and is never where a webhook goes.
 */
const OTHER_PROTOCOLS = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
  1433, 1521, 2375, 2376, 2379, 2380, 3306, 3389, 4222, 5432, 5433, 5672, 5900, 6379, 6432, 9042, 9092, 11211, 27017,
]);

export interface CheckedUrl {
  readonly url: URL;
  /** Without brackets, and without a dot at its end. */
  readonly host: string;
  readonly isLiteral: boolean;
}

/** The address as it will be called. Ends with `address_refused` and a sentence that says why. */
export function checkUrl(text: string, policy: EgressPolicy): CheckedUrl {
  if (text.length > URL_CHARS_MAX) throw refused(`it is longer than ${URL_CHARS_MAX} characters`);
  if (AMBIGUOUS.test(text)) throw refused("it holds a space, a control character or a backslash");
  const url = URL.parse(text);
  if (url === null || !/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    throw refused("it is not a complete URL such as https://example.com/hooks");
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") throw refused("its scheme is not https");
  if (url.username !== "" || url.password !== "") throw refused("it holds a user name or a password");
  const host = hostOf(url);
  const isLiteral = isIP(host) !== 0;
  const why = isLiteral ? policy.refusalOfAddress(host) : policy.refusalOfName(host);
  if (why !== null) throw refused(why);
  if (url.protocol === "http:" && !isAllowedBesides(host, policy)) throw refused("its scheme is not https");
  const portWhy = refusalOfPort(url);
  if (portWhy !== null) throw refused(portWhy);
  return { url, host, isLiteral };
}

/** Why it may not be called, as the last words of a sentence. */
export function refused(why: string): PlatformError {
  const detail = `This address may not be called: ${why}.`;
  return new PlatformError("address_refused", detail, { fields: [{ pointer: "/url", detail: why }] });
}

function hostOf(url: URL): string {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  return host.endsWith(".") ? host.slice(0, -1) : host;
}

/** In the clear only where the operator has said that the way is their own. */
function isAllowedBesides(host: string, policy: EgressPolicy): boolean {
  const version = isIP(host);
  if (version === 0) return policy.allowsName(host);
  return policy.allowsAddress({ text: host, family: version === 4 ? "ipv4" : "ipv6" });
}

function refusalOfPort(url: URL): string | null {
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  if (WEB_PORTS.includes(port)) return null;
  if (port < UNPRIVILEGED_PORT || OTHER_PROTOCOLS.has(port)) return `its port ${port} is not one of the web`;
  return null;
}
