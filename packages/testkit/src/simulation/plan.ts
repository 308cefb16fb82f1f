/** What the scripted model of a simulated engine says for a run: the same for the same run, however often it runs. */
import type { PlannedCall } from "./gates.ts";
import { createSeeded, type Seeded } from "./seeded.ts";

export interface PlannedMessage {
  readonly thinking: string | null;
  readonly chunks: readonly string[];
  readonly calls: readonly PlannedCall[];
  /** The step ends after this message, and the engine asks to continue. */
  readonly thenContinue: boolean;
  /** A person is asked before it, for so long when it is not for ever. */
  readonly asks: Asked | null;
}

export interface Asked {
  readonly expiresInMs: number | null;
}

export interface Plan {
  readonly messages: readonly PlannedMessage[];
  /** The engine keeps its transcript only at the end of a step, so nothing tells it early that it is stale. */
  readonly keepsLate: boolean;
  readonly ending: "end_turn" | "max_tokens" | "refusal" | "provider_error" | "empty";
}

export interface PlanOptions {
  readonly runId: string;
  readonly seed: number;
  /** Only what goes well. */
  readonly plain: boolean;
  /** What somebody is asked before the last message of a plain plan. */
  readonly asks: Asked | null;
}

export function planOf({ runId, seed, plain, asks }: PlanOptions): Plan {
  const random = createSeeded(seed ^ Number.parseInt(runId.slice(-7), 16));
  const messageCount = plain ? 2 : random.between(1, 3);
  const messages = Array.from({ length: messageCount }, (_, index): PlannedMessage => {
    const last = index === messageCount - 1;
    return {
      thinking: random.chance(0.3) ? "let me see" : null,
      chunks: Array.from({ length: random.between(2, 5) }, (_unused, part) => `part ${index}.${part} `),
      calls: last ? [] : callsOf(random, { runId, index, plain }),
      thenContinue: !plain && !last && random.chance(0.2),
      asks: plain ? (last ? asks : null) : askedOf(random),
    };
  });
  return {
    messages,
    keepsLate: !plain && random.chance(0.4),
    ending: plain || random.chance(0.85) ? "end_turn" : random.pick(BAD_ENDINGS),
  };
}

function askedOf(random: Seeded): Asked | null {
  if (!random.chance(0.15)) return null;
  return { expiresInMs: random.chance(0.4) ? random.between(100, 6_000) : null };
}

const BAD_ENDINGS = ["max_tokens", "refusal", "provider_error", "empty"] as const;

function callsOf(
  random: Seeded,
  about: { readonly runId: string; readonly index: number; readonly plain: boolean },
): readonly PlannedCall[] {
  const count = about.plain ? 1 : random.between(0, 2);
  return Array.from({ length: count }, (_, each) => ({
    name: about.plain || random.chance(0.6) ? "files__read" : "pay__refund",
    argumentsJson: JSON.stringify({ run: about.runId, message: about.index, call: each }),
  }));
}
