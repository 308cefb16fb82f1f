/** An executor with its neighbours, without a worker: the simulated model as model gate, a scripted MCP server as tool gate. */
import { createHash, randomBytes } from "node:crypto";
import { makeId, uuidV7Bytes, type ErrorCode, type HistoryEntry, type Rung, type Snapshot } from "@signalbox/contract";
import {
  MemoryTranscript,
  startMcpServer,
  startSim,
  type McpNeighbour,
  type Script,
  type Sim,
} from "@signalbox/testkit";
import type { CreateExecutor, EngineSession, Executor, StepEvent, StepInput, StepResult } from "@signalbox/worker";
import { snapshotOf } from "./worker-client.ts";

type ScriptedTools = Parameters<McpNeighbour["setTools"]>[0];

export interface EngineSceneOptions {
  readonly createExecutor: CreateExecutor;
  readonly script?: Script;
  readonly tools?: ScriptedTools;
  readonly snapshot?: Partial<Snapshot>;
}

export interface Stepped {
  readonly result: StepResult;
  readonly events: readonly StepEvent[];
  /** Items in the order they appeared, as a reader ends up with them; a retracted one is `null`. */
  readonly items: ReadonlyMap<string, string | null>;
  /** Texts of items that are still there. */
  readonly texts: readonly string[];
}

export interface StepOptions {
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: StepEvent) => void;
}

export class EngineScene implements AsyncDisposable {
  readonly sim: Sim;
  readonly mcp: McpNeighbour;
  readonly transcript = new MemoryTranscript();
  readonly lost: ErrorCode[] = [];
  readonly #createExecutor: CreateExecutor;
  readonly #snapshot: Snapshot;
  readonly #executors: Executor[] = [];
  readonly #sessions: EngineSession[] = [];

  private constructor(options: EngineSceneOptions, neighbours: { readonly sim: Sim; readonly mcp: McpNeighbour }) {
    this.#createExecutor = options.createExecutor;
    this.#snapshot = snapshotOf(options.snapshot);
    this.sim = neighbours.sim;
    this.mcp = neighbours.mcp;
  }

  static async open(options: EngineSceneOptions): Promise<EngineScene> {
    const sim = await startSim(options.script === undefined ? {} : { script: options.script, ids: "unique" });
    const mcp = await startMcpServer({ tools: options.tools ?? {} });
    return new EngineScene(options, { sim, mcp });
  }

  /** A session as the present owner of the transcript opens it, in an executor that has seen nothing before. */
  async session(
    continuity: {
      readonly rung?: Rung;
      readonly leaf?: string | null;
      readonly finalized?: string | null;
      readonly history?: readonly HistoryEntry[];
    } = {},
  ): Promise<EngineSession> {
    const executor = await this.#createExecutor({ scratchDir: "" });
    this.#executors.push(executor);
    const session = await executor.open({
      tenantId: "tnt_1",
      conversationId: "cnv_1",
      generation: this.transcript.generation,
      snapshot: this.#snapshot,
      snapshotHash: "",
      slotToken: "slot-token",
      gates: { model: this.sim.url, tool: this.mcp.url },
      continuity: {
        rung: continuity.rung ?? "fresh",
        leaf: continuity.leaf ?? null,
        finalized: continuity.finalized ?? null,
        history: continuity.history ?? [],
      },
      transcript: this.transcript.log(),
      newItemId: () => makeId("item", uuidV7Bytes(Date.now(), randomBytes(10))),
      onLost: (code) => this.lost.push(code),
    });
    this.#sessions.push(session);
    return session;
  }

  /** Bodies of the model calls so far. */
  get asked(): readonly ModelCallBody[] {
    return this.sim.modelRequests().map((request) => request.body as ModelCallBody);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of [...this.#sessions, ...this.#executors]) {
      await each[Symbol.asyncDispose]?.();
    }
    await this.sim.close();
    await this.mcp.close();
  }
}

export interface ModelCallBody {
  readonly model: string;
  readonly system?: readonly { readonly text: string; readonly cache_control?: unknown }[];
  readonly tools?: readonly { readonly name: string }[];
  readonly messages: readonly { readonly role: string; readonly content: readonly WireBlock[] }[];
}

export interface WireBlock {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly tool_use_id?: string;
  readonly content?: readonly WireBlock[];
  readonly is_error?: boolean;
}

/** What a body says, a line each: `role text`, `role ←tool_use`, `role →tool_result text`. */
export function linesOf(body: ModelCallBody | undefined): readonly string[] {
  return (body?.messages ?? []).flatMap(({ role, content }) =>
    content.map((block) => {
      if (block.type === "tool_use") return `${role} calls`;
      if (block.type === "tool_result") {
        return `${role} result ${(block.content ?? []).map(({ text }) => text).join("|")}`;
      }
      return `${role} ${block.text ?? block.type}`;
    }),
  );
}

export function step(session: EngineSession, text: string, options: StepOptions = {}): Promise<Stepped> {
  return played(session, { kind: "message", turnId: "trn_1", runId: "run_1", parts: [text] }, options);
}

/** Goes on with the turn that the transcript ends in; readers see `shown`. */
export function recover(
  session: EngineSession,
  shown: Readonly<Record<string, string>> = {},
  options: StepOptions = {},
): Promise<Stepped> {
  const items = Object.entries(shown).map(([itemId, text]) => ({
    itemId,
    kind: "text" as const,
    digest: createHash("sha256").update(text).digest("hex"),
  }));
  const input = { kind: "recover", turnId: "trn_1", runId: "run_1", reason: "worker_lost", shown: items } as const;
  return played(session, input, options);
}

async function played(session: EngineSession, input: StepInput, options: StepOptions): Promise<Stepped> {
  const events: StepEvent[] = [];
  const emit = (event: StepEvent): void => {
    events.push(event);
    options.onEvent?.(event);
  };
  const result = await session.step(input, emit, options.signal ?? new AbortController().signal);
  const items = itemsOf(events);
  return { result, events, items, texts: [...items.values()].filter((each) => each !== null) };
}

function itemsOf(events: readonly StepEvent[]): ReadonlyMap<string, string | null> {
  const items = new Map<string, string | null>();
  for (const event of events) {
    switch (event.type) {
      case "text.delta":
        items.set(event.itemId, (items.get(event.itemId) ?? "").slice(0, event.offset) + event.text);
        break;
      case "text.completed":
        items.set(event.itemId, event.text);
        break;
      case "text.retracted":
        items.set(event.itemId, null);
        break;
      case "thinking.delta":
      case "thinking.completed":
      case "run.phase":
      case "input.consumed":
        break;
    }
  }
  return items;
}
