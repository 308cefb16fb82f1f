/** Who uses the platform meanwhile: senders that repeat what was not acknowledged, cancellers, and a reader who keeps going away. */
import { setTimeout as pause } from "node:timers/promises";
import { SignalboxError, type ConversationHandle, type Signalbox } from "@signalbox/client";
import type { PlatformEvent } from "@signalbox/contract";
import { AGENT, type Cast } from "./cast.ts";
import type { Dice } from "./dice.ts";

export interface Acknowledged {
  readonly conversationId: string;
  readonly runId: string;
  readonly key: string;
  readonly whenBusy: string;
}

export interface Conversation {
  readonly id: string;
  readonly acknowledged: Acknowledged[];
  /** What the reader was told, durable events only, in the order it was told. */
  readonly read: PlatformEvent[];
}

const SEND_EVERY_MS = [150, 1_800] as const;
const READ_FOR_MS = [500, 6_000] as const;
const CALL_MS = 8_000;

export async function converse(
  cast: Cast,
  options: { readonly dice: Dice; readonly count: number; readonly signal: AbortSignal },
): Promise<readonly Conversation[]> {
  const { dice, signal } = options;
  const conversations: Conversation[] = [];
  for (let place = 0; place < options.count; place += 1) {
    const { id } = await insisted(() => dice.one(cast.clients).conversations.create({ agent: AGENT }));
    conversations.push({ id, acknowledged: [], read: [] });
  }
  await Promise.all(
    conversations.flatMap((conversation, place) => [
      sendOn(cast, conversation, { dice, signal, place }),
      readOn(cast, conversation, { dice, signal }),
    ]),
  );
  return conversations;
}

async function sendOn(
  cast: Cast,
  conversation: Conversation,
  { dice, signal, place }: { readonly dice: Dice; readonly signal: AbortSignal; readonly place: number },
): Promise<void> {
  for (let number = 1; !signal.aborted; number += 1) {
    await pause(dice.between(...SEND_EVERY_MS));
    const key = `c${place}-m${number}`;
    const whenBusy = dice.fraction() < 0.8 ? "enqueue" : dice.one(["interrupt", "steer", "rollback"] as const);
    const run = await acknowledged(cast, conversation.id, {
      key,
      whenBusy,
      content: contentOf(dice, key),
      dice,
      signal,
    });
    if (run === null) continue;
    conversation.acknowledged.push({ conversationId: conversation.id, runId: run.id, key, whenBusy });
    if (dice.fraction() < 0.12) {
      await pause(dice.between(0, 600));
      await run.cancel().catch(expected);
    }
  }
}

function contentOf(dice: Dice, key: string): string {
  const kind = dice.fraction();
  const slow = `[[sim:tokens ${dice.between(5, 40)}]] [[sim:slow ${dice.between(5, 60)}]]`;
  if (kind < 0.25) return `${key} [[sim:tool ledger__count {"note":"${key}"}]]`;
  if (kind < 0.4) return `${key} [[sim:tool ledger__echo {"text":"${key}"}]]`;
  return `${key} ${slow} Say something.`;
}

interface Sending {
  readonly key: string;
  readonly whenBusy: "enqueue" | "interrupt" | "steer" | "rollback";
  readonly content: string;
  readonly dice: Dice;
  readonly signal: AbortSignal;
}

/** Sends until it is acknowledged, over any API, always under one key; null when it was refused or time is over. */
async function acknowledged(cast: Cast, id: string, { key, whenBusy, content, dice, signal }: Sending) {
  while (!signal.aborted) {
    const handle: ConversationHandle = dice.one(cast.clients).conversations.open(id);
    try {
      return await handle.send(content, { idempotencyKey: key, whenBusy, signal: AbortSignal.timeout(CALL_MS) });
    } catch (thrown) {
      if (thrown instanceof SignalboxError && REFUSALS.has(thrown.code)) return null;
      expected(thrown);
      await pause(200);
    }
  }
  return null;
}

const REFUSALS: ReadonlySet<string> = new Set(["queue_full", "message_rate_exceeded", "too_many_runs"]);

/** A reader that goes away in the middle and comes back where it was, at any API. */
async function readOn(
  cast: Cast,
  conversation: Conversation,
  { dice, signal }: { readonly dice: Dice; readonly signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    const after = conversation.read.at(-1)?.sequence ?? 0;
    const leaving = AbortSignal.any([signal, AbortSignal.timeout(dice.between(...READ_FOR_MS))]);
    try {
      const handle = dice.one<Signalbox>(cast.clients).conversations.open(conversation.id);
      for await (const event of handle.events({ after, signal: leaving })) {
        if (event.sequence !== null) conversation.read.push(event);
      }
    } catch (thrown) {
      expected(thrown);
      await pause(100);
    }
  }
}

async function insisted<T>(act: () => Promise<T>): Promise<T> {
  for (let tryCount = 1; ; tryCount += 1) {
    try {
      return await act();
    } catch (thrown) {
      if (tryCount >= 20) throw thrown;
      await pause(200);
    }
  }
}

/** In a storm a call may fail in any way but one: a promise of the API that is broken is a defect. */
function expected(thrown: unknown): void {
  if (thrown instanceof SignalboxError && thrown.code === "idempotency_key_reused") throw thrown;
}
