/**
 * Names are looked up by the connection itself, once, and every address that the answer has is judged before one is
 * connected to. A name that answers otherwise a moment later changes nothing: what was judged is what is connected to.
 */
import { lookup, type LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import type { EgressPolicy } from "./egress-policy.ts";
import { refused } from "./url-guard.ts";

/** All addresses of a name, as the machine finds them. */
export type Resolver = (
  name: string,
  // With an error Node leaves the addresses out.
  told: (error: NodeJS.ErrnoException | null, addresses?: readonly LookupAddress[]) => void,
) => void;

export const systemResolver: Resolver = (name, told) => lookup(name, { all: true, order: "verbatim" }, told);

/** For `net.connect`, `http.request` and what is built on them. It is not asked about IP addresses. */
export function guardedLookup(policy: EgressPolicy, resolver: Resolver = systemResolver): LookupFunction {
  return (hostname, options, told) => {
    const name = hostname.toLowerCase().replace(/\.$/, "");
    const nameWhy = policy.refusalOfName(name);
    if (nameWhy !== null) {
      told(refused(nameWhy), "", 0);
      return;
    }
    resolver(hostname, (error, addresses = []) => {
      const failure = error ?? refusalAmong(addresses, { policy, named: policy.allowsName(name) });
      const wanted = options.family === 4 || options.family === 6 ? options.family : null;
      const fitting = addresses.filter(({ family }) => wanted === null || family === wanted);
      const [first] = fitting;
      if (failure !== null) told(failure, "", 0);
      else if (first === undefined) told(notFound(hostname), "", 0);
      else if (options.all === true) told(null, [...fitting]);
      else told(null, first.address, first.family);
    });
  };
}

/** One bad address among good ones is not chance but somebody's design. */
function refusalAmong(
  addresses: readonly LookupAddress[],
  { policy, named }: { readonly policy: EgressPolicy; readonly named: boolean },
): Error | null {
  for (const { address } of addresses) {
    const why = policy.refusalOfAddress(address, { named });
    if (why !== null) return refused(why);
  }
  return null;
}

function notFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${hostname} has no address`), { code: "ENOTFOUND" });
}
