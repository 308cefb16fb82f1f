/** What a simulated engine keeps of its turns, and how it finds its place in them again. */
import { createHash } from "node:crypto";
import type { Recovery, TranscriptRow } from "@signalbox/core";
import type { PlannedMessage } from "./plan.ts";

/** A message of the model that is in the transcript. */
export interface KeptMessage {
  readonly runId: string;
  readonly generation: number;
  readonly index: number;
  readonly said: readonly Said[];
}

export interface Said {
  readonly kind: "text" | "thinking";
  readonly text: string;
}

const MESSAGE = /^msg_(?<run>[^_]+_[^_]+)_(?<generation>\d+)_(?<index>\d+)$/;

export function messageRow(
  runId: string,
  generation: number,
  played: { readonly index: number; readonly message: PlannedMessage },
) {
  return { entryId: `msg_${runId}_${generation}_${played.index}`, text: JSON.stringify(saidIn(played.message)) };
}

function saidIn(message: PlannedMessage): readonly Said[] {
  const text: Said = { kind: "text", text: message.chunks.join("") };
  return message.thinking === null ? [text] : [{ kind: "thinking", text: message.thinking }, text];
}

export function resultRowId(toolUseId: string): string {
  return `res_${toolUseId}`;
}

export function toolUseIdOf(call: {
  readonly runId: string;
  readonly generation: number;
  readonly index: number;
  readonly place: number;
}): string {
  return `tu_${call.generation}_${call.index}_${call.place}_${call.runId.slice(-4)}`;
}

export function keptMessages(rows: readonly Pick<TranscriptRow, "entryId" | "body">[]): readonly KeptMessage[] {
  return rows.flatMap(({ entryId, body }) => {
    const { run = "", generation, index } = MESSAGE.exec(entryId)?.groups ?? {};
    // Written by `messageRow` alone.
    const said = (): readonly Said[] => JSON.parse(new TextDecoder().decode(body)) as readonly Said[];
    return run === "" ? [] : [{ runId: run, generation: Number(generation), index: Number(index), said: said() }];
  });
}

/** What readers see and is not kept, and what is kept and they do not see. */
export function compareSaid(said: readonly Said[], shown: Recovery["shown"]) {
  const left = [...shown];
  const unseen = said.filter(({ kind, text }) => {
    const digest = createHash("sha256").update(text).digest("hex");
    const place = left.findIndex((item) => item.kind === kind && item.digest === digest);
    if (place >= 0) left.splice(place, 1);
    return place < 0;
  });
  return { gone: left, unseen };
}
