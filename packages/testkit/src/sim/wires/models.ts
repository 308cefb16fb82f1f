/** `GET /v1/models`: one list that reads right for clients of either vendor, who ask at the same address. */
import type { JsonObject } from "../json.ts";

/** What the list names. A request may name any model; the answer then says it was served by that one. */
const SIM_MODELS = ["sim", "sim-fast"] as const;

const RELEASED_AT = "2026-01-01T00:00:00Z";

export function modelList(): JsonObject {
  const data = SIM_MODELS.map(modelOf);
  return { object: "list", data, has_more: false, first_id: SIM_MODELS[0], last_id: SIM_MODELS.at(-1) };
}

export function modelOf(id: string): JsonObject {
  return {
    id,
    type: "model",
    object: "model",
    display_name: `Simulated model ${id}`,
    created_at: RELEASED_AT,
    created: Math.floor(Date.parse(RELEASED_AT) / 1_000),
    owned_by: "signalbox",
  };
}
