/** Conversations of one tenant as its callers lead them, and runs as their owners end them. */
import type { AcceptedMessage, Conversation, Message, PlatformEvent, Run, WhenBusy } from "@signalbox/contract";
import { LIMITS, type Ownership } from "@signalbox/core";
import { expect } from "vitest";
import { finalize } from "../../../packages/core/src/finalize/finalize.ts";
import { systemClock, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { newId, type ApiWorld, type Told } from "../../setup/api-world.ts";
import { conclusionOf } from "../store/record-parts.ts";

export interface SendOptions {
  readonly whenBusy?: WhenBusy;
  readonly key?: string;
  /** The process that is asked; the one the talk was made with when left out. */
  readonly at?: ApiWorld;
}

export class Talk {
  readonly world: ApiWorld;
  readonly key: string;

  constructor(world: ApiWorld, key: string) {
    this.world = world;
    this.key = key;
  }

  static async open(world: ApiWorld): Promise<Talk> {
    return new Talk(world, await world.key());
  }

  async converse(whenBusy?: WhenBusy): Promise<string> {
    const { world, key } = this;
    const name = `agent-${newId("agent").slice(-12)}`;
    const definition = { name, model: "sim/quote", ...(whenBusy === undefined ? {} : { whenBusy }) };
    await world.ask("/v1/agents", { key, body: definition });
    return (await world.ask<Conversation>("/v1/conversations", { key, body: { agent: name } })).body.id;
  }

  /** Whatever it is answered. */
  async try(conversation: string, content: string, options: SendOptions = {}): Promise<Told<AcceptedMessage>> {
    const { at = this.world, whenBusy, key: idempotencyKey } = options;
    return at.ask<AcceptedMessage>(`/v1/conversations/${conversation}/messages`, {
      key: this.key,
      body: { content, ...(whenBusy === undefined ? {} : { whenBusy }) },
      ...(idempotencyKey === undefined ? {} : { headers: { "idempotency-key": idempotencyKey } }),
    });
  }

  async send(conversation: string, content: string, options: SendOptions = {}): Promise<AcceptedMessage> {
    const told = await this.try(conversation, content, options);
    expect(told.status).toBe(202);
    return told.body;
  }

  cancel(run: string, at: ApiWorld = this.world): Promise<Told<Run & { readonly code?: string }>> {
    return at.ask(`/v1/runs/${run}/cancel`, { key: this.key, method: "POST" });
  }

  async run(id: string): Promise<Run> {
    return (await this.world.ask<Run>(`/v1/runs/${id}`, { key: this.key })).body;
  }

  async conversation(id: string): Promise<Conversation> {
    return (await this.world.ask<Conversation>(`/v1/conversations/${id}`, { key: this.key })).body;
  }

  /** Oldest first. */
  async runs(conversation: string): Promise<readonly Run[]> {
    return this.#list<Run>(`/v1/conversations/${conversation}/runs`);
  }

  /** Oldest first. */
  async history(conversation: string): Promise<readonly Message[]> {
    return this.#list<Message>(`/v1/conversations/${conversation}/messages`);
  }

  async #list<Row>(path: string): Promise<readonly Row[]> {
    const told = await this.world.ask<{ data: Row[] }>(`${path}?order=asc&limit=100`, { key: this.key });
    return told.body.data;
  }

  async events(conversation: string): Promise<readonly PlatformEvent[]> {
    const path = `/v1/conversations/${conversation}/events?follow=false`;
    return eventsIn(await (await this.world.fetch(path, { key: this.key })).text());
  }
}

/** The events of a stream that has ended. */
export function eventsIn(stream: string): readonly PlatformEvent[] {
  const frames = stream.split("\n\n").flatMap((frame) => /^data: (.*)$/m.exec(frame)?.[1] ?? []);
  // Frames of the stream are events of the language.
  return frames.map((json) => JSON.parse(json) as PlatformEvent).filter((each) => "runId" in each);
}

/** Ends the claimed run as its owner does: the turn said this, and the platform judges what is true. */
export async function conclude(
  ownership: Ownership,
  said: Parameters<typeof conclusionOf>[1] = {},
): Promise<string | null> {
  const ports = { clock: systemClock, randomness: systemRandomness };
  const { nextRunId } = await finalize(ownership, conclusionOf(ownership, said), { ...ports, limits: LIMITS });
  return nextRunId;
}
