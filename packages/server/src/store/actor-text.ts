import { canonicalJson, wellFormedJson, type Actor } from "@signalbox/contract";

/** Who acted, as canonical bytes: what is stored is what audit entries repeat. */
export function actorText(actor: Actor): string {
  return canonicalJson(wellFormedJson(actor));
}
