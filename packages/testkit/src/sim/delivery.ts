/**
 * An answer made ready for a wire: blocks, the actions that write them one after the other, stop reason and usage.
 * Limits the caller set (most output tokens, stop sequences) are applied here, so every wire stops at the same token.
 */
import type { SimRequest } from "./conversation.ts";
import { type IdSource, signatureOf } from "./ids.ts";
import type {
  Breakage,
  FillerPart,
  PlayedAnswer,
  ScriptPart,
  StopReason,
  TextPart,
  ThinkingPart,
  ToolPart,
  Usage,
} from "./script.ts";
import { splitTokens } from "./tokens.ts";
import { inputUsage } from "./usage.ts";

export type Block =
  | { readonly kind: "text" }
  | { readonly kind: "thinking"; readonly signature: string }
  | { readonly kind: "tool"; readonly id: string; readonly name: string };

/** A block with everything written into it: its text, its thoughts or its arguments as JSON. */
export interface WrittenBlock {
  readonly block: Block;
  readonly text: string;
}

export type Action =
  | { readonly do: "open"; readonly block: Block }
  /** `text` is null for a token that is the time of its writing. */
  | { readonly do: "token"; readonly text: string | null; readonly delayMs: number }
  | { readonly do: "close" }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "break"; readonly how: Breakage };

export interface Delivery {
  readonly model: string;
  readonly actions: readonly Action[];
  readonly stop: StopReason;
  /** The stop sequence that was met, else null. */
  readonly stopSequence: string | null;
  readonly usage: Usage;
}

export interface DeliveryContext {
  readonly request: SimRequest;
  readonly ids: IdSource;
  /** Used where neither part nor answer says. */
  readonly firstTokenDelayMs: number;
  readonly tokenDelayMs: number;
}

/** What is still to be written while an answer is laid out. */
interface Layout {
  readonly actions: Action[];
  readonly limit: number;
  written: number;
  thought: number;
  toolCount: number;
  /** Set when a limit ended the answer early. */
  ended: { readonly stop: StopReason; readonly sequence: string | null } | null;
}

export function prepareDelivery(answer: PlayedAnswer, context: DeliveryContext): Delivery {
  const { request } = context;
  const layout: Layout = {
    actions: [],
    limit: request.maxOutputTokens ?? Number.POSITIVE_INFINITY,
    written: 0,
    thought: 0,
    toolCount: 0,
    ended: null,
  };
  const firstDelayMs = answer.firstTokenDelayMs ?? context.firstTokenDelayMs;
  if (firstDelayMs > 0) {
    layout.actions.push({ do: "wait", ms: firstDelayMs });
  }
  for (const part of answer.parts) {
    if (layout.ended !== null) {
      break;
    }
    addPart(layout, part, { ...context, tokenDelayMs: answer.tokenDelayMs ?? context.tokenDelayMs });
  }
  const asked = answer.stop ?? (layout.toolCount > 0 ? "tool_use" : "end");
  return {
    model: answer.model ?? request.model,
    actions: layout.actions,
    stop: layout.ended?.stop ?? asked,
    stopSequence: layout.ended?.sequence ?? null,
    usage: {
      ...inputUsage(request),
      outputTokens: layout.written,
      thinkingTokens: layout.thought,
      ...answer.usage,
    },
  };
}

function addPart(layout: Layout, part: ScriptPart, context: DeliveryContext): void {
  if ("waitMs" in part) {
    layout.actions.push({ do: "wait", ms: part.waitMs });
  } else if ("text" in part) {
    const stopped = untilStopSequence(part.text, context.request.stopSequences);
    addBlock(layout, part, { block: { kind: "text" }, tokens: splitTokens(stopped.text), context });
    if (stopped.sequence !== null && layout.ended === null) {
      layout.ended = { stop: "stop_sequence", sequence: stopped.sequence };
    }
  } else if ("tokens" in part) {
    const tokens = fillerTokens(part.tokens, part.timestamps === true);
    addBlock(layout, part, { block: { kind: "text" }, tokens, context });
  } else if ("thinking" in part) {
    const signature = part.signature ?? signatureOf(part.thinking);
    addBlock(layout, part, { block: { kind: "thinking", signature }, tokens: splitTokens(part.thinking), context });
  } else if ("tool" in part) {
    const whole = JSON.stringify(part.input);
    const json = part.cutJsonAt === undefined ? whole : whole.slice(0, part.cutJsonAt);
    const prefix = context.request.wire === "anthropic" ? "toolu_" : "call_";
    const id = part.id ?? context.ids.id(prefix, `tool ${layout.toolCount}`);
    layout.toolCount += 1;
    addBlock(layout, part, { block: { kind: "tool", id, name: part.tool }, tokens: splitTokens(json), context });
  } else {
    layout.actions.push({ do: "break", how: part.break });
  }
}

type BlockPart = TextPart | FillerPart | ThinkingPart | ToolPart;

interface BlockPlan {
  readonly block: Block;
  readonly tokens: readonly (string | null)[];
  readonly context: DeliveryContext;
}

function addBlock(layout: Layout, part: BlockPart, plan: BlockPlan): void {
  const { block, tokens, context } = plan;
  const delayMs = part.tokenDelayMs ?? context.tokenDelayMs;
  const room = layout.limit - layout.written;
  const untilBreak = Math.min(
    tokens.length,
    part.break === undefined ? tokens.length : (part.breakAfterTokens ?? tokens.length),
  );
  const count = Math.min(room, untilBreak);
  layout.actions.push({ do: "open", block });
  for (const text of tokens.slice(0, count)) {
    layout.actions.push({ do: "token", text, delayMs });
  }
  layout.written += count;
  layout.thought += block.kind === "thinking" ? count : 0;
  if (part.break !== undefined && count === untilBreak) {
    layout.actions.push({ do: "break", how: part.break });
  }
  layout.actions.push({ do: "close" });
  if (count === room && count < tokens.length && count < untilBreak) {
    layout.ended = { stop: "max_tokens", sequence: null };
  }
}

function untilStopSequence(text: string, sequences: readonly string[]): { text: string; sequence: string | null } {
  let end = text.length;
  let met: string | null = null;
  for (const sequence of sequences) {
    const at = sequence === "" ? -1 : text.indexOf(sequence);
    if (at >= 0 && at < end) {
      end = at;
      met = sequence;
    }
  }
  return { text: met === null ? text : text.slice(0, end), sequence: met };
}

function fillerTokens(count: number, timestamps: boolean): readonly (string | null)[] {
  return Array.from({ length: count }, (_, place) => (timestamps ? null : `w${place} `));
}
