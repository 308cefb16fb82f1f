/** The neighbours of one executor and the context of its sessions, everything a test of it needs. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ErrorCode, HistoryEntry, Rung, Snapshot } from "@signalbox/contract";
import type { EngineSession, Executor, SessionContext, StepEvent, StepInput, StepResult } from "@signalbox/worker";
import { createExecutor } from "@signalbox/executor-claude-sdk";
import { startModelDouble, type ModelDouble, type Script } from "./model-double.ts";
import { startToolDouble, TOOL, type ToolDouble } from "./tool-double.ts";
import { TranscriptDouble } from "./transcript-double.ts";

export const SLOT_TOKEN = "c2xvdC10b2tlbi1vZi10aGUtdGVzdA";

export const READER_TOOLS: Snapshot["tools"] = [
  {
    name: TOOL.name,
    server: "docs",
    tool: "read",
    title: "Read a document",
    description: TOOL.description,
    effect: "read",
    definitionHash: "0".repeat(64),
    inputSchema: TOOL.inputSchema,
  },
];

const SNAPSHOT: Snapshot = {
  agentId: "agt_00000000000070008000000000000001",
  agentName: "reader",
  revision: 1,
  runtime: "claude_sdk",
  instructions: "You answer about documents.",
  model: "sim/sim-1",
  maxOutputTokens: 4_096,
  tools: READER_TOOLS,
  limits: { modelCallCount: 8, toolCallCount: 8, wallClockMs: 60_000 },
};

export interface Opening {
  readonly rung?: Rung;
  readonly leaf?: string | null;
  readonly finalized?: string | null;
  readonly history?: readonly HistoryEntry[];
  readonly generation?: number;
  readonly snapshot?: Partial<Snapshot>;
  readonly transcript?: TranscriptDouble;
  readonly toolUrl?: string;
  readonly slotToken?: string;
}

export interface OpenedSession {
  readonly session: EngineSession;
  readonly transcript: TranscriptDouble;
  readonly losses: readonly { readonly code: ErrorCode; readonly detail: string }[];
}

export interface World extends AsyncDisposable {
  readonly model: ModelDouble;
  readonly tools: ToolDouble;
  readonly scratchDir: string;
  readonly executor: Executor;
  open(opening?: Opening): Promise<OpenedSession>;
  /** Engine processes that live below the scratch directory. */
  engines(): readonly number[];
}

export async function makeWorld(script: Script): Promise<World> {
  const [model, tools] = await Promise.all([startModelDouble(script), startToolDouble(SLOT_TOKEN)]);
  const scratchDir = mkdtempSync(join(tmpdir(), "x-"));
  const executor = await createExecutor({ scratchDir });
  const opened: EngineSession[] = [];
  return {
    model,
    tools,
    scratchDir,
    executor,
    open: async (opening = {}) => {
      const transcript = opening.transcript ?? new TranscriptDouble();
      const losses: { code: ErrorCode; detail: string }[] = [];
      const gates = { model: model.url, tool: opening.toolUrl ?? tools.url };
      const onLost = (code: ErrorCode, detail: string): void => void losses.push({ code, detail });
      const session = await executor.open(contextOf({ opening, transcript, gates, onLost }));
      opened.push(session);
      return { session, transcript, losses };
    },
    engines: () => enginesBelow(scratchDir),
    async [Symbol.asyncDispose]() {
      await Promise.all(opened.map(async (session) => session[Symbol.asyncDispose]()));
      await Promise.all([model[Symbol.asyncDispose](), tools[Symbol.asyncDispose]()]);
      const left = readdirSync(scratchDir);
      rmSync(scratchDir, { recursive: true, force: true });
      if (left.length > 0) {
        throw new Error(`sessions left behind: ${left.join(", ")}`);
      }
    },
  };
}

export function contextOf(parts: {
  readonly opening: Opening;
  readonly transcript: TranscriptDouble;
  readonly gates: SessionContext["gates"];
  readonly onLost: SessionContext["onLost"];
}): SessionContext {
  const { opening } = parts;
  let itemCount = 0;
  return {
    tenantId: "default",
    conversationId: "cnv_00000000000070008000000000000001",
    generation: opening.generation ?? 1,
    snapshot: { ...SNAPSHOT, ...opening.snapshot },
    snapshotHash: "0".repeat(64),
    slotToken: opening.slotToken ?? SLOT_TOKEN,
    gates: parts.gates,
    continuity: {
      rung: opening.rung ?? "fresh",
      leaf: opening.leaf ?? null,
      finalized: opening.finalized ?? null,
      history: opening.history ?? [],
    },
    transcript: parts.transcript,
    newItemId: () => `itm_${String((itemCount += 1))}`,
    onLost: parts.onLost,
  };
}

export interface Heard {
  readonly result: StepResult;
  readonly events: readonly StepEvent[];
}

export interface SayOptions {
  readonly turnId?: string;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: StepEvent) => void;
}

/** Runs one step with a message of these parts and keeps what it emitted. */
export async function say(
  session: EngineSession,
  parts: string | readonly string[],
  options: SayOptions = {},
): Promise<Heard> {
  const events: StepEvent[] = [];
  const input: StepInput = {
    kind: "message",
    turnId: options.turnId ?? `trn_${String(events.length)}${String(parts)}`,
    runId: "run_1",
    parts: typeof parts === "string" ? [parts] : parts,
  };
  const emit = (event: StepEvent): void => {
    events.push(event);
    options.onEvent?.(event);
  };
  return { result: await session.step(input, emit, options.signal ?? new AbortController().signal), events };
}

/** Goes on with the turn that the transcript ends in; readers see texts by their items. */
export async function recover(
  session: EngineSession,
  shown: Readonly<Record<string, string>> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<Heard> {
  const events: StepEvent[] = [];
  const items = Object.entries(shown).map(([itemId, text]) => ({
    itemId,
    kind: "text" as const,
    digest: createHash("sha256").update(text).digest("hex"),
  }));
  const input: StepInput = { kind: "recover", turnId: "trn_r", runId: "run_1", reason: "worker_lost", shown: items };
  return { result: await session.step(input, (event) => void events.push(event), signal), events };
}

/** What a reader sees at the end: the last form of every text item that was not taken back. */
export function visibleTexts(events: readonly StepEvent[]): readonly string[] {
  const texts = new Map<string, string>();
  for (const event of events) {
    if (event.type === "text.delta") {
      texts.set(event.itemId, (texts.get(event.itemId) ?? "").slice(0, event.offset) + event.text);
    } else if (event.type === "text.completed") {
      texts.set(event.itemId, event.text);
    } else if (event.type === "text.retracted") {
      texts.delete(event.itemId);
    }
  }
  return [...texts.values()];
}

export function enginesBelow(directory: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => homeOf(pid).startsWith(directory));
}

export function commandLineOf(pid: number): string {
  return readFileSync(`/proc/${String(pid)}/cmdline`, "utf8").replaceAll("\u0000", " ");
}

export function environmentOf(pid: number): readonly string[] {
  return readFileSync(`/proc/${String(pid)}/environ`, "utf8")
    .split("\u0000")
    .filter((line) => line !== "");
}

/** Where a process has its home; empty for one that is gone or somebody else's. */
function homeOf(pid: number): string {
  try {
    const home = environmentOf(pid).find((line) => line.startsWith("HOME="));
    return home?.slice("HOME=".length) ?? "";
  } catch {
    return "";
  }
}
