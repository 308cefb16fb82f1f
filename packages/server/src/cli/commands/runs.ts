import type { Run } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  refuseFlags,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";
import type { Terminal } from "../terminal.ts";

export const runsCommand: Command = {
  name: "runs",
  summary: "List, show and cancel runs",
  usage: `signalbox runs [--conversation ID] [--limit 50] [--cursor CURSOR]   list, newest first
signalbox runs show ID
signalbox runs cancel ID`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, conversation: { type: "string" } },
  async run(call) {
    const [verb = "list", id, ...rest] = call.words;
    if (verb !== "list" && verb !== "show" && verb !== "cancel") throw new UsageError(`there is no "runs ${verb}"`);
    if (rest.length > 0 || (verb === "list" && id !== undefined)) throw new UsageError("too many words");
    if (verb === "list") return list(call);
    if (id === undefined) throw new UsageError("name a run");
    refuseFlags(call, [...Object.keys(LIST_OPTIONS), "conversation"], "runs");
    const { runs } = clientOf(call);
    if (verb === "show") return showOne(call, await runs.get(id));
    const run = await runs.cancel(id);
    if (!call.terminal.json) call.terminal.note(cancelled(run));
    return showOne(call, run);
  },
};

/** The first ending of a run stands: a cancel that came after it did nothing. */
function cancelled(run: Run): string {
  if (run.status === "cancelled") return "The run is cancelled.";
  return run.finishedAt === null ? "The run is being cancelled." : "The run had ended before; nothing was cancelled.";
}

async function list(call: CommandCall): Promise<ExitCode> {
  const { terminal } = call;
  const conversation = textFlag(call, "conversation");
  const filter = conversation === undefined ? {} : { conversation };
  tellPage(terminal, await clientOf(call).runs.list({ ...listFlags(call), ...filter }), {
    none: "No runs yet. Send a message with `signalbox chat`.",
    row: (run) => [run.id, statusOf(terminal, run), run.agent.name, run.runtime, run.acceptedAt, elapsedOf(run)],
  });
  return EXIT.done;
}

function showOne(call: CommandCall, run: Run): ExitCode {
  if (call.terminal.json) {
    call.terminal.value(run);
    return EXIT.done;
  }
  call.terminal.table([
    ["run", run.id],
    ["conversation", run.conversationId],
    ["status", statusOf(call.terminal, run)],
    ["agent", `${run.agent.name} revision ${run.agent.revision} on ${run.runtime}`],
    ["model", run.servedModel ?? "none yet"],
    ["rung", run.rung ?? "none yet"],
    ["attempt", String(run.attempt)],
    [
      "usage",
      `${run.usage.inputTokens} in, ${run.usage.outputTokens} out, ${run.usage.modelCalls} model calls, ${run.usage.toolCalls} tool calls`,
    ],
    ["cost", run.costMicros === null ? "price not known" : `${(run.costMicros / 1_000_000).toFixed(6)} USD`],
    ["accepted", run.acceptedAt],
    ["finished", run.finishedAt ?? "not yet"],
    ["error", run.error === null ? "none" : `${run.error.code}: ${run.error.detail}`],
    ["events", run.eventsUrl],
  ]);
  return EXIT.done;
}

function statusOf(terminal: Terminal, run: Run): string {
  const text = run.reason === null ? run.status : `${run.status} (${run.reason})`;
  if (run.status === "completed") return terminal.style("green", text);
  return run.status === "failed" ? terminal.style("red", text) : text;
}

function elapsedOf(run: Run): string {
  return run.finishedAt === null ? "" : `${Date.parse(run.finishedAt) - Date.parse(run.acceptedAt)} ms`;
}
