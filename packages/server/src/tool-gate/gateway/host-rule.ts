/**
 * From where the gateway may be asked. A page that got a browser to take this machine for its own host sends a name of
 * that page's: names other than the machine's own, and origins other than the host itself, get nothing.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";

/** Names under which the platform is reached besides its own; `null`: any name, because it stands behind its operator's. */
export type AllowedHosts = readonly string[] | null;

const OWN_NAMES: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "::1"]);

/** Why a request is refused, or `null`. */
export function refusedHost(headers: IncomingHttpHeaders, allowed: AllowedHosts): string | null {
  const host = nameOf(`http://${headers.host ?? ""}`);
  if (host === null) return "A request names its host.";
  if (!isKnown(host, allowed)) return "This address is not served under that host name.";
  if (headers.origin === undefined) return null;
  const origin = nameOf(headers.origin);
  const known = origin !== null && (origin === host || OWN_NAMES.has(origin) || (allowed?.includes(origin) ?? false));
  return known ? null : "This address is not served to pages of that origin.";
}

/** Where nothing is configured: a platform that only this machine reaches has this machine's names alone. */
export function hostsOf(configured: readonly string[], listensOn: string): AllowedHosts {
  if (configured.length > 0) return configured;
  return OWN_NAMES.has(listensOn) ? [] : null;
}

function isKnown(host: string, allowed: AllowedHosts): boolean {
  // An address cannot be made to mean another machine.
  return allowed === null || OWN_NAMES.has(host) || isIP(host) !== 0 || allowed.includes(host);
}

function nameOf(url: string): string | null {
  const name = URL.parse(url)
    ?.hostname.replace(/^\[(.*)\]$/, "$1")
    .toLowerCase();
  return name === undefined || name === "" ? null : name;
}
