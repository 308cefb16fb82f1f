/** A tool of a server of its own, as a platform pinned it. */
import { listingOf } from "../integration/store/pin-tools.ts";
import { newId, type ApiWorld } from "./api-world.ts";

export interface PinnedName {
  readonly name: string;
  /** Of what would be approved now. */
  readonly digest: string;
}

export async function pinTool(world: ApiWorld, key: string): Promise<PinnedName> {
  const server = `shop-${newId("agent").slice(-8)}`;
  const pin = { server, tool: "refund", title: "Refund", definition: { name: "refund" }, definitionHash: "h" } as const;
  await world.record.queries.tools.observe(listingOf("default", [{ ...pin, effect: "write" }]));
  const name = `${server}__refund`;
  const { body } = await world.ask<{ digest: string }>(`/v1/tools/${name}`, { key });
  return { name, digest: body.digest };
}
