/** A conversation whose owner is in the test's hands, and readers that note what they were sent. */
import { revisionOf, type OwnerEvent, type PlatformEvent } from "@signalbox/contract";
import type { Ownership } from "@signalbox/core";
import { newId, type ApiWorld } from "../../setup/api-world.ts";
import { readFrames, type SseFrame } from "../../setup/read-frames.ts";
import { conclusionOf, finalizationOf, TURN } from "../store/record-parts.ts";

export interface Place {
  readonly world: ApiWorld;
  readonly key: string;
  readonly id: string;
}

export async function newPlace(world: ApiWorld): Promise<Place> {
  const key = await world.key();
  const agent = `agent-${newId("agent").slice(-12)}`;
  await world.ask("/v1/agents", { key, body: { name: agent, model: "sim/quote" } });
  const { body } = await world.ask<{ id: string }>("/v1/conversations", { key, body: { agent } });
  return { world, key, id: body.id };
}

async function send({ world, key, id }: Place, content = "hello"): Promise<void> {
  await world.ask(`/v1/conversations/${id}/messages`, { key, body: { content } });
}

/** An owner that has claimed the conversation's next run. */
export async function owned(place: Place): Promise<Ownership> {
  await send(place);
  return place.world.claim(place.id);
}

/** So many more rows of the log, each an item of its own. */
export async function say(ownership: Ownership, ...texts: readonly string[]): Promise<void> {
  const revision = revisionOf(ownership.claim.generation, 1);
  const rows = texts.map((text): OwnerEvent => {
    return { type: "text.completed", itemId: newId("item"), revision, data: { text } };
  });
  await ownership.append(rows, TURN);
}

export async function finish(ownership: Ownership): Promise<void> {
  const { leaf, digest } = await ownership.seal(conclusionOf(ownership));
  await ownership.finish(finalizationOf({ leaf, digest, answer: null, outcome: "completed" }));
}

export function open(place: Place, query: string, options: { readonly signal?: AbortSignal } = {}): Promise<Response> {
  return place.world.fetch(`/v1/conversations/${place.id}/events${query}`, { key: place.key, ...options });
}

/** Every frame until the stream ends, the run's end has come, or `signal` gives up. */
export async function framesUntilEnd(response: Response, ends: number): Promise<readonly SseFrame[]> {
  const frames: SseFrame[] = [];
  let seen = 0;
  try {
    for await (const frame of readFrames(response)) {
      frames.push(frame);
      seen += frame.event === "run.finished" ? 1 : 0;
      if (seen === ends) break;
    }
  } catch (thrown) {
    if (!(thrown instanceof Error) || thrown.name !== "TimeoutError") throw thrown;
  }
  return frames;
}

export function sequencesOf(frames: readonly SseFrame[]): readonly number[] {
  return frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]));
}

export function eventsOf(frames: readonly SseFrame[]): readonly PlatformEvent[] {
  // What the API sends under these types are events.
  return frames.map(({ data }) => JSON.parse(data) as PlatformEvent);
}
