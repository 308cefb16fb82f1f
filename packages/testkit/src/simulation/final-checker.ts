/** What must hold once everything has come to rest. */
import { isTerminal, type PlatformEvent } from "@signalbox/contract";
import { createItemFold, generationOf, type FoldedItem } from "@signalbox/core";
import type { MemoryDatabase } from "../memory/database.ts";
import type { RunRow } from "../memory/rows.ts";
import type { Effect } from "./gates.ts";
import { keptMessages } from "./kept-rows.ts";
import type { SimReader } from "./reader.ts";
import type { Sent } from "./user.ts";
import type { Violation } from "./violations.ts";

export interface Rest {
  readonly db: MemoryDatabase;
  readonly sent: readonly Sent[];
  readonly effects: readonly Effect[];
  readonly readers: readonly SimReader[];
  readonly report: (invariant: Violation["invariant"], detail: string) => void;
}

export function checkRest(rest: Rest): void {
  checkEndings(rest);
  checkKeys(rest);
  checkOrder(rest);
  checkEffects(rest);
  checkItems(rest);
  checkTranscripts(rest);
  for (const reader of rest.readers) checkReader(rest, reader);
}

/** INV-02, INV-08: everybody who was answered has an ending, and one. */
function checkEndings({ db, sent, report }: Rest): void {
  for (const { answer, key } of sent) {
    if (answer === null) report("INV-02", `${key} was never answered`);
    if (answer === null || "refused" in answer) continue;
    const run = db.runs.get(answer.runId);
    if (run === undefined) {
      report("INV-02", `${key} was acknowledged and is not recorded`);
      continue;
    }
    if (!isTerminal(run.state)) report("INV-02", `${key} was acknowledged and is ${run.state}`);
    const endings = db
      .eventsOf(run.conversationId)
      .filter((event) => event.type === "run.finished" && event.runId === run.id);
    if (isTerminal(run.state) && endings.length !== 1) report("INV-08", `${key} has ${endings.length} terminal events`);
  }
}

/** INV-03: one key, one run. */
function checkKeys({ db, sent, report }: Rest): void {
  for (const { key } of sent) {
    const messages = db.messages.where((message) => message.role === "user" && message.text === `message ${key}`);
    if (messages.length > 1) report("INV-03", `${key} made ${messages.length} runs`);
  }
}

/** INV-04: messages begin in the order in which they were acknowledged. */
function checkOrder({ db, report }: Rest): void {
  for (const { id } of db.conversations.all()) {
    const begun = db
      .eventsOf(id)
      .flatMap((event) => (event.type === "run.admitted" ? [db.runs.must(event.runId ?? "").position] : []));
    if (begun.some((position, index) => position <= (begun[index - 1] ?? 0))) {
      report("INV-04", `messages of ${id} began in the order ${begun.join(", ")}`);
    }
  }
}

/** INV-11: what cannot be taken back happened at most once. */
function checkEffects({ effects, report }: Rest): void {
  const seen = new Set<string>();
  for (const effect of effects.filter((each) => !each.repeatable)) {
    const call = `${effect.runId} ${effect.tool} ${effect.argumentsJson}`;
    if (seen.has(call)) report("INV-11", `${call} took effect twice`);
    seen.add(call);
  }
}

/** INV-09: what a run opened is closed when it has ended, and nothing of an attempt that was given up still stands. */
function checkItems({ db, report }: Rest): void {
  for (const { id } of db.conversations.all()) {
    const fold = createItemFold();
    for (const event of db.eventsOf(id)) fold.apply(event);
    for (const item of fold.items()) {
      const run = db.runs.must(item.runId ?? "");
      if (!isTerminal(run.state) || item.state === "retracted") continue;
      if (item.state === "open") report("INV-09", `${item.itemId} is still open though its run has ended`);
      const answeredBy = run.conclusion?.generation ?? 0;
      if (generationOf(item.revision) < answeredBy && !isKept(db, run, item)) {
        report("INV-09", `${item.itemId} of ${run.id}, ${run.state}, stands though the turn ran again after it`);
      }
    }
  }
}

/** Whether the last generation took it over with the transcript, so that it is still part of the answer. */
function isKept(db: MemoryDatabase, run: RunRow, item: FoldedItem): boolean {
  // Whatever people had seen whole when they cancelled is what there is of the answer.
  if (run.state === "cancelled") return true;
  const entries = db.entries.where(
    (entry) => entry.conversationId === run.conversationId && entry.generation === run.conclusion?.generation,
  );
  return keptMessages(entries).some(
    (message) => message.runId === run.id && message.said.some((said) => said.text === item.text),
  );
}

/** INV-17: what the next turn continues from says what people see, run by run. */
function checkTranscripts({ db, report }: Rest): void {
  for (const { id, leafPosition } of db.conversations.all()) {
    const fold = createItemFold();
    for (const event of db.eventsOf(id)) fold.apply(event);
    const entries = db.entries.where((entry) => entry.conversationId === id && !entry.cut);
    const kept = keptMessages(entries.filter((entry) => entry.position <= leafPosition));
    for (const runId of new Set(kept.map((message) => message.runId))) {
      const run = db.runs.must(runId);
      if (run.state !== "completed") continue;
      const said = kept.filter((message) => message.runId === runId).flatMap((message) => message.said);
      const seen = fold.items().filter((item) => item.runId === runId && item.state === "completed");
      const texts = (items: readonly { readonly text: string }[]): string =>
        items
          .map((item) => item.text)
          .sort()
          .join("|");
      if (texts(said) !== texts(seen)) {
        report("INV-17", `the transcript of ${runId} has ${texts(said)}, readers see ${texts(seen)}`);
      }
    }
  }
}

/** INV-09, INV-10: whatever was lost on the way, a reader ends with what the log says. */
function checkReader({ db, report }: Rest, reader: SimReader): void {
  reader.read();
  const events = db.eventsOf(reader.conversationId);
  const expected = events.flatMap(({ sequence }) => (sequence !== null && sequence > reader.cursor ? [sequence] : []));
  if (reader.sequences.join() !== expected.join()) report("INV-09", `a reader from ${reader.cursor} missed events`);
  const truth = visibleAfter(events, reader.cursor);
  const seen = describe(reader.items());
  if (seen !== truth) report("INV-09", `a reader from ${reader.cursor} sees ${seen} where the log says ${truth}`);
}

function visibleAfter(events: readonly PlatformEvent[], cursor: number): string {
  const fold = createItemFold();
  const spokenOf = new Set<string>();
  for (const event of events) {
    fold.apply(event);
    if ((event.sequence ?? 0) > cursor) spokenOf.add(event.itemId);
  }
  return describe(fold.items().filter((item) => spokenOf.has(item.itemId)));
}

function describe(items: readonly FoldedItem[]): string {
  return items
    .map(({ itemId, state, revision, text }) => `${itemId} ${state} ${revision} ${text}`)
    .sort()
    .join("\n");
}
