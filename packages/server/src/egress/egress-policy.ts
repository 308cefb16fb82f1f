/** Which hosts a tenant's address may name. What the operator has allowed goes beyond what is public, and no further. */
import { BlockList } from "node:net";
import { addressOf, type Address } from "./address.ts";

/** What the operator allows besides the public network. */
export interface EgressAllowance {
  /** Host names in lower case; `*.` before one stands for everything below it. */
  readonly names: readonly string[];
  readonly networks: readonly { readonly address: string; readonly prefix: number }[];
}

/** Names that a network gives its own machines, or that never leave the machine. */
const OWN_SUFFIXES = ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa"];
const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const NAME_CHARS_MAX = 253;

export class EgressPolicy {
  readonly #names: readonly string[];
  readonly #networks = new BlockList();

  constructor(allowance: EgressAllowance = { names: [], networks: [] }) {
    this.#names = allowance.names;
    for (const { address, prefix } of allowance.networks) {
      const known = addressOf(address);
      if (known !== null) this.#networks.addSubnet(known.text, prefix, known.family);
    }
  }

  /** Why this address is not called, or `null`. `named`: the operator has allowed the name that led to it. */
  refusalOfAddress(text: string, options: { readonly named?: boolean } = {}): string | null {
    const address = addressOf(text);
    if (address === null) return "its host is not an address";
    // Credentials of the machine: no list of anybody's opens them.
    if (address.kind === "metadata") return "its host is where a cloud hands out credentials";
    if (address.kind === "public" || options.named === true || this.allowsAddress(address)) return null;
    return `its host is not a public address (${address.kind.replace("_", " ")})`;
  }

  allowsAddress({ text, family }: Pick<Address, "text" | "family">): boolean {
    return this.#networks.check(text, family);
  }

  allowsName(name: string): boolean {
    return this.#names.some((each) =>
      each.startsWith("*.") ? name.endsWith(each.slice(1)) && name.length >= each.length : name === each,
    );
  }

  /** Why this name is not looked up, or `null`. In lower case and without a dot at its end. */
  refusalOfName(name: string): string | null {
    const labels = name.split(".");
    if (name.length > NAME_CHARS_MAX || !labels.every((label) => LABEL.test(label))) {
      return "its host is not a name that can be looked up";
    }
    if (this.allowsName(name)) return null;
    const own = OWN_SUFFIXES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
    if (own || labels.length === 1) return "its host is a name of a private network";
    return null;
  }
}
