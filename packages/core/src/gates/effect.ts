import type { EffectClass, ToolCallState } from "@signalbox/contract";

const REPEATABLE: Readonly<Record<EffectClass, boolean>> = {
  read: true,
  egress_read: true,
  write: false,
  irreversible: false,
};

/** Whether a call whose outcome is lost may simply be made again. */
export function isRepeatable(effect: EffectClass): boolean {
  return REPEATABLE[effect];
}

/** Whether this call forbids that its turn runs again: it may have taken effect and nobody knows. */
export function blocksRepetition(call: { readonly effect: EffectClass; readonly state: ToolCallState }): boolean {
  return !isRepeatable(call.effect) && (call.state === "executing" || call.state === "unknown");
}
