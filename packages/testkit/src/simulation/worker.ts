/**
 * A worker process with a scripted engine. It plays the plan of a run: asks the model gate, streams, asks the tool gate,
 * keeps its transcript. It can die, be cut off from its supervisor and go on, or be slow to hear that it should stop.
 */
import { makeId, PlatformError, uuidV7Bytes, type HoldId } from "@signalbox/contract";
import type { Recovery, SessionRequest, StepRequest, StepResult, TranscriptRow, WorkerEvent } from "@signalbox/core";
import type { Faults } from "./faults.ts";
import type { SimGates } from "./gates.ts";
import type { Machine } from "./machine.ts";
import type { Network } from "./network.ts";
import { compareSaid, keptMessages, messageRow, resultRowId, toolUseIdOf } from "./kept-rows.ts";
import { planOf, type Asked, type Plan, type PlannedMessage } from "./plan.ts";
import type { Life, Scheduler } from "./scheduler.ts";

export interface WorkerOptions {
  readonly life: Life;
  readonly machine: Machine;
  readonly network: Network;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly seed: number;
  readonly plain: boolean;
  readonly asks: Asked | null;
  /** The platform process whose gates this worker uses. */
  readonly home: { readonly life: Life; readonly gates: SimGates };
  readonly onCutOff: () => void;
  readonly onDeath: () => void;
}

export interface SimSession {
  readonly request: SessionRequest;
  readonly tokenHash: string;
  /** The transcript it was opened from. */
  readonly rows: readonly TranscriptRow[];
  interrupted: boolean;
  ended: boolean;
  leaf: string | null;
  said: string;
  /** Messages that were delivered into the running step and not used yet; `null` between steps. */
  inbox: string[] | null;
  /** Entries that wait for the end of the step; `null` when each is kept at once. */
  late: TranscriptRow[] | null;
}

export class SimWorker {
  readonly life: Life;
  readonly #options: WorkerOptions;
  readonly #highest = new Map<string, number>();
  readonly #connections = new Set<string>();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.life = options.life;
  }

  async open(request: SessionRequest, tokenHash: string): Promise<SimSession> {
    if (request.generation < (this.#highest.get(request.conversationId) ?? 0)) {
      throw new PlatformError("stale_generation");
    }
    this.#highest.set(request.conversationId, request.generation);
    this.#connections.add(tokenHash);
    const continues = request.rung === "native" || request.rung === "repaired";
    const rows = continues ? await this.#restore(request, tokenHash) : [];
    return {
      request,
      tokenHash,
      rows,
      interrupted: false,
      ended: false,
      leaf: null,
      said: "",
      inbox: null,
      late: null,
    };
  }

  /** Never rejects: whatever a gate or the plan does is a result. */
  async step(session: SimSession, request: StepRequest, say: (event: WorkerEvent) => void): Promise<StepResult> {
    try {
      const result = await this.#play(session, request, say);
      session.inbox = null;
      await this.#append(session, session.late ?? []);
      return { ...result, leaf: session.leaf };
    } catch (thrown) {
      this.hangUp(session.tokenHash);
      const code = thrown instanceof PlatformError ? thrown.code : "engine_failed";
      const detail = thrown instanceof Error ? thrown.message : "the engine threw something";
      return { ...this.#resultOf(session, "failed"), error: { code, detail } };
    }
  }

  /** The gate sees the connection go, whatever became of the engine. */
  hangUp(connection: string): void {
    const { network, home } = this.#options;
    network.send(home.life, () => {
      home.gates.hangUp(connection).catch(() => undefined);
    });
  }

  async #restore(request: SessionRequest, tokenHash: string): Promise<readonly TranscriptRow[]> {
    const rows = await this.#gate((gates) => gates.loadTranscript(tokenHash));
    const last = rows.findLast((row) => row.stream === "");
    if (last?.entryId !== request.leaf || this.#options.faults.failsToContinue()) {
      throw new PlatformError("transcript_corrupt");
    }
    return rows;
  }

  async #play(session: SimSession, request: StepRequest, say: (event: WorkerEvent) => void): Promise<StepResult> {
    const { seed, plain, asks } = this.#options;
    const plan = planOf({ runId: request.runId, seed, plain, asks });
    session.late = plan.keepsLate ? [] : null;
    session.inbox = [];
    const begin =
      request.recovery === null
        ? Number(request.continueReason ?? 0)
        : await this.#goOn(session, { plan, runId: request.runId, recovery: request.recovery }, say);
    for (let index = begin; index < plan.messages.length; index += 1) {
      const message = plan.messages[index];
      if (message === undefined) break;
      if (!(await this.#mayGoOn(session, { message, index, runId: request.runId }))) {
        return { ...this.#resultOf(session, "hold_required"), stopReason: String(index) };
      }
      const done = await this.#playMessage(session, { message, index, runId: request.runId }, say);
      if (!done) return this.#resultOf(session, "interrupted");
      if (message.thenContinue) return { ...this.#resultOf(session, "continue"), stopReason: String(index + 1) };
    }
    if (plan.ending === "provider_error") throw new PlatformError("provider_overloaded");
    const ended = { ...this.#resultOf(session, "done"), stopReason: plan.ending };
    return plan.ending === "empty" ? { ...ended, answer: "" } : ended;
  }

  /** Whether nothing keeps the run before this message. */
  async #mayGoOn(
    { tokenHash }: SimSession,
    { message, index, runId }: { readonly message: PlannedMessage; readonly index: number; readonly runId: string },
  ): Promise<boolean> {
    const { asks } = message;
    return asks === null || (await this.#gate((gates) => gates.ask(tokenHash, holdOf(runId, index), asks)));
  }

  /** Finds its place in the turn that another worker left. The message to go on with. */
  async #goOn(
    session: SimSession,
    turn: { readonly plan: Plan; readonly runId: string; readonly recovery: Recovery },
    say: (event: WorkerEvent) => void,
  ): Promise<number> {
    const { plan, runId, recovery } = turn;
    const kept = keptMessages(session.rows).filter((message) => message.runId === runId);
    const last = kept.at(-1);
    if (last === undefined) throw new PlatformError("transcript_corrupt");
    const { gone, unseen } = compareSaid(
      kept.flatMap((message) => message.said),
      recovery.shown,
    );
    for (const { itemId } of gone) say({ type: "text.retracted", itemId, cause: "not_continued" });
    for (const { kind, text } of unseen) say({ type: `${kind}.completed`, itemId: this.#itemId(), text });
    session.said = last.said.at(-1)?.text ?? "";
    session.leaf = session.request.leaf;
    const calls = plan.messages[last.index]?.calls ?? [];
    const ids = calls.map((_, place) => toolUseIdOf({ ...last, place }));
    const known = new Set(session.rows.map((row) => row.entryId));
    const open = ids.filter((id) => !known.has(resultRowId(id)));
    const outcomes = open.length === 0 ? [] : await this.#gate((gates) => gates.callOutcomes(session.tokenHash, open));
    for (const id of open) {
      const outcome = outcomes.find((each) => each.toolUseId === id);
      await this.#keep(session, resultRowId(id), outcome?.resultJson ?? `{"state":"${outcome?.state ?? "withdrawn"}"}`);
    }
    return last.index + 1;
  }

  /** False when it was interrupted on the way. */
  async #playMessage(
    session: SimSession,
    played: { readonly message: PlannedMessage; readonly index: number; readonly runId: string },
    say: (event: WorkerEvent) => void,
  ): Promise<boolean> {
    const { message, index, runId } = played;
    const { tokenHash, request } = session;
    const { generation, snapshot } = request;
    if (index > 0) for (const messageId of session.inbox?.splice(0) ?? []) say({ type: "input.consumed", messageId });
    const modelCallId = await this.#gate((gates) => gates.openModelCall(tokenHash, snapshot.model, tokenHash));
    const streamed = await this.#stream(session, message, say);
    const calls = message.calls.map((call, each) => ({
      ...call,
      toolUseId: toolUseIdOf({ runId, generation, index, place: each }),
    }));
    const accepted = await this.#gate((gates) =>
      gates.settleModelCall(modelCallId, streamed ? { snapshot, calls } : null),
    );
    if (!streamed) return false;
    if (!accepted && calls.length > 0) throw new PlatformError("tool_not_proposed");
    const row = messageRow(runId, generation, played);
    await this.#keep(session, row.entryId, row.text);
    for (const call of calls) {
      if (!(await this.#move(session))) return false;
      say({ type: "run.phase", phase: "using_tool" });
      const result = await this.#gate((gates) => gates.callTool(tokenHash, call));
      await this.#keep(session, resultRowId(call.toolUseId), result);
    }
    return await this.#move(session);
  }

  async #stream(session: SimSession, message: PlannedMessage, say: (event: WorkerEvent) => void): Promise<boolean> {
    if (message.thinking !== null) {
      const itemId = this.#itemId();
      say({ type: "thinking.delta", itemId, offset: 0, text: message.thinking });
      say({ type: "thinking.completed", itemId, text: message.thinking });
    }
    const itemId = this.#itemId();
    let text = "";
    for (const chunk of message.chunks) {
      if (!(await this.#move(session))) return false;
      say({ type: "text.delta", itemId, offset: text.length, text: chunk });
      text += chunk;
      session.said = text;
    }
    say({ type: "text.completed", itemId, text });
    return true;
  }

  /** Time passes, and things happen in it. False when the step was asked to stop. */
  async #move(session: SimSession): Promise<boolean> {
    const { machine, faults, scheduler, onCutOff, onDeath } = this.#options;
    await machine.clock.sleep(5 + machine.randomness.fraction() * 90);
    const fate = faults.workerFate(scheduler.nowMs);
    if (fate === "cut_off") onCutOff();
    if (fate === "dies") {
      onDeath();
      for (const tokenHash of this.#connections) this.hangUp(tokenHash);
      await new Promise<never>(() => undefined);
    }
    if (session.ended) throw new PlatformError("session_unknown");
    return !session.interrupted;
  }

  async #keep(session: SimSession, entryId: string, text: string): Promise<void> {
    const row = { kind: "item", entryId, stream: "", body: new TextEncoder().encode(text) } as const;
    if (session.late === null) await this.#append(session, [row]);
    else session.late.push(row);
  }

  async #append(session: SimSession, rows: readonly TranscriptRow[]): Promise<void> {
    const last = rows.at(-1);
    if (last === undefined) return;
    await this.#gate((gates) => gates.appendTranscript(session.tokenHash, rows));
    session.leaf = last.entryId;
  }

  #gate<T>(work: (gates: SimGates) => Promise<T>): Promise<T> {
    const { network, life, home } = this.#options;
    return network.between(life, home.life, () => work(home.gates));
  }

  #resultOf(session: SimSession, outcome: StepResult["outcome"]): StepResult {
    return { outcome, answer: session.said, stopReason: "", leaf: session.leaf, servedModel: "sim/one", error: null };
  }

  #itemId(): string {
    const { clock, randomness } = this.#options.machine;
    return makeId("item", uuidV7Bytes(clock.nowMs(), randomness.bytes(10)));
  }
}

/** Named by the run and the place in its plan, so that a turn that is run again asks nothing twice. */
function holdOf(runId: string, index: number): HoldId {
  return makeId("hold", Buffer.from(`${runId.slice("run_".length, -2)}${String(index).padStart(2, "0")}`, "hex"));
}
