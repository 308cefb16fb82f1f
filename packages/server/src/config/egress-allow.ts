/** `SIGNALBOX_EGRESS_ALLOW`: what addresses that tenants give may reach besides the public network. */
import { isIP } from "node:net";
import { ConfigurationError, textOf, type Environment } from "./environment.ts";

export interface EgressAllowConfig {
  readonly names: readonly string[];
  readonly networks: readonly { readonly address: string; readonly prefix: number }[];
}

const NAME = "SIGNALBOX_EGRESS_ALLOW";
const HOST_NAME = /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/;
/** Written out, because whoever tries things out wants exactly this. */
const LOOPBACK: EgressAllowConfig = {
  names: ["localhost"],
  networks: [
    { address: "127.0.0.0", prefix: 8 },
    { address: "::1", prefix: 128 },
  ],
};

/** Entries joined by commas: `loopback`, host names (`hooks.corp`, `*.svc.cluster.local`), addresses and networks. */
export function readEgressAllow(environment: Environment): EgressAllowConfig {
  const entries = (textOf(environment, NAME) ?? "").split(",").map((entry) => entry.trim().toLowerCase());
  const names: string[] = [];
  const networks: { address: string; prefix: number }[] = [];
  for (const entry of entries) {
    if (entry === "") continue;
    if (entry === "loopback") {
      names.push(...LOOPBACK.names);
      networks.push(...LOOPBACK.networks);
      continue;
    }
    const network = networkOf(entry);
    if (network !== null) networks.push(network);
    else if (HOST_NAME.test(entry) && !/^[0-9.]+$/.test(entry)) names.push(entry);
    else {
      throw new ConfigurationError(
        `${NAME} must list "loopback", host names such as hooks.corp or *.svc.cluster.local, addresses and networks such as 10.0.0.0/8, not "${entry}".`,
      );
    }
  }
  return { names, networks };
}

function networkOf(entry: string): { address: string; prefix: number } | null {
  const [address = "", prefixText, ...rest] = entry.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return null;
  const widest = version === 4 ? 32 : 128;
  if (prefixText === undefined) return { address, prefix: widest };
  const prefix = /^[0-9]{1,3}$/.test(prefixText) ? Number(prefixText) : Number.NaN;
  return prefix <= widest ? { address, prefix } : null;
}
