/** What the gates tell about calls, written with the ledger row. */
import { revisionOf, type EventData } from "@signalbox/contract";
import type { ModelSettlement } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { placeOf, writeEvent } from "./event-log.ts";
import type { ModelCallRow, RunRow, ToolCallRow } from "./rows.ts";

type ToolFacts = Pick<EventData<"tool.started">, "toolCallId" | "toolUseId" | "tool" | "title" | "effect" | "grade">;

function toolFacts(db: MemoryDatabase, call: ToolCallRow): ToolFacts {
  const run = db.runs.must(call.runId);
  const { snapshot } = db.snapshots.must(run.snapshotHash);
  const title = snapshot.tools.find((tool) => tool.name === call.name)?.title ?? call.name;
  const { id, toolUseId, effect } = call;
  return { toolCallId: id, toolUseId, tool: call.name, title, effect, grade: "contained" };
}

export function writeToolStarted(db: MemoryDatabase, call: ToolCallRow): void {
  const run = db.runs.must(call.runId);
  writeEvent(db, placeOf(run, call.generation), {
    type: "tool.started",
    itemId: call.id,
    revision: revisionOf(call.generation, 1),
    data: { ...toolFacts(db, call), argumentsSummary: call.argumentsJson, executor: "gate" },
  });
  writeAudit(db, "tool_called", { run, generation: call.generation });
}

export function writeToolFinished(db: MemoryDatabase, call: ToolCallRow): void {
  tellToolFinished(db, call, 3);
  const run = db.runs.must(call.runId);
  writeAudit(db, call.state === "denied" ? "tool_denied" : "tool_settled", { run, generation: call.generation });
}

/** A run ends: what it opened is closed for readers; what such a call comes to is told as a newer revision. */
export function tellStillOpen(db: MemoryDatabase, run: RunRow): void {
  for (const call of db.toolCalls.where((each) => each.runId === run.id && each.state === "executing")) {
    tellToolFinished(db, { ...call, state: "unknown", resultSummary: "The run ended while this call was open." }, 2);
  }
}

function tellToolFinished(db: MemoryDatabase, call: ToolCallRow, step: number): void {
  const run = db.runs.must(call.runId);
  const elapsedMs = call.startedAtMs === null ? 0 : db.nowMs() - call.startedAtMs;
  writeEvent(db, placeOf(run, call.generation), {
    type: "tool.finished",
    itemId: call.id,
    revision: revisionOf(call.generation, step),
    data: {
      ...toolFacts(db, call),
      state: call.state,
      resultSummary: call.resultSummary,
      denial: call.denial,
      elapsedMs,
    },
  });
}

export function writeModelSettled(
  db: MemoryDatabase,
  call: ModelCallRow,
  settled: Pick<ModelSettlement, "servedModel" | "usage" | "costMicros" | "priceVersion">,
): void {
  const run = db.runs.must(call.runId);
  const { servedModel, usage, costMicros, priceVersion } = settled;
  writeEvent(db, placeOf(run, call.generation), {
    type: "usage.recorded",
    itemId: call.id,
    revision: revisionOf(call.generation, 1),
    data: {
      modelCallId: call.id,
      requestedModel: call.requestedModel,
      servedModel,
      usage: { ...usage },
      costMicros,
      priceVersion,
      estimated: call.state === "estimated",
    },
  });
  writeAudit(db, "model_settled", { run, generation: call.generation });
}
