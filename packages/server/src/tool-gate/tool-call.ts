/**
 * One call of a tool: judged, recorded, carried out, recorded again, answered. What the engine reads is what the ledger
 * keeps. A call that may have acted and was not answered is `unknown`, never simply failed.
 */
import { asPlatformError, PlatformError, type ErrorCode, type SnapshotTool } from "@signalbox/contract";
import {
  callDigestText,
  isClientTool,
  isRepeatable,
  judgeToolCall,
  wireToolName,
  type Clock,
  type Digest,
  type Log,
  type Randomness,
  type SlotView,
  type ToolGrant,
  type ToolJudge,
  type ToolSettlement,
  type Verdict,
} from "@signalbox/core";
import { canonicalArguments } from "../gates/canonical-arguments.ts";
import { judgeMessage } from "../gates/judging.ts";
import type { KeptRecord } from "../gates/kept-calls.ts";
import type { OpenCall, OpenCalls } from "../gates/open-calls.ts";
import type { Settling } from "../gates/settling.ts";
import type { BegunCalls } from "./begun-calls.ts";
import { readConditions, withoutRedacted, type CallConditions } from "./call-conditions.ts";
import type { Json } from "./mcp-protocol.ts";
import { McpProblem } from "./mcp-request.ts";
import { RPC } from "./mcp-protocol.ts";
import { parameterHeaders } from "./parameter-headers.ts";
import { NotAnswered, type RpcAnswer } from "./rpc-wire.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import { errorResult, refusal, shapeResult, withNote, type ShapedResult } from "./tool-result.ts";
import { placesOf, type ToolServer } from "./tool-server.ts";
import type { PoolPlace, UpstreamPool } from "./upstream-pool.ts";

export interface ToolCallPorts {
  readonly record: KeptRecord;
  readonly catalog: ToolCatalog;
  readonly judge: ToolJudge;
  /** Whoever may keep a state at a server has a connection of its own. */
  readonly pool: UpstreamPool;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly open: OpenCalls;
  readonly begun: BegunCalls;
  readonly settling: Settling;
  /** Incarnation of this process. Throws while the process is not sure of it. */
  readonly process: () => number;
  /** For tools without a time of their own. */
  readonly callMs: number;
}

export interface ToolCallInput {
  readonly tokenHash: string;
  readonly view: SlotView;
  readonly name: string;
  readonly arguments: unknown;
  readonly meta: Json;
  /** Aborted with a `PlatformError` when the server is to stop. */
  readonly ending: AbortController;
}

/** A policy that changes while a message is judged makes it be judged again; one that goes on changing is none. */
const JUDGED_AT_MOST = 5;

type KeptGrant = Awaited<ReturnType<KeptRecord["openToolCall"]>>;
type Granted = Extract<ToolGrant, { readonly kind: "execute" }>;
type Outcome = Pick<ToolSettlement, "state" | "errorCode"> & { readonly result: ShapedResult };

/** Where engines put the provider's id of the call: the Claude CLI by itself, our own clients by our name. */
const TOOL_USE_ID_KEYS: readonly string[] = ["claudecode/toolUseId", "signalbox/toolUseId"];

export class ToolCall {
  readonly #ports: ToolCallPorts;
  readonly #input: ToolCallInput;
  /** Why nobody waits for the answer any more. */
  #left: PlatformError | null = null;
  readonly #call: { readonly toolUseId: string | null; readonly name: string; readonly argumentsDigest: string };

  /** Throws `McpProblem` when the arguments are no JSON object. */
  constructor(ports: ToolCallPorts, input: ToolCallInput) {
    this.#ports = ports;
    this.#input = input;
    const argumentsJson = canonicalArguments(input.arguments);
    if (argumentsJson === null) {
      throw new McpProblem("arguments must be an object.", { status: 200, rpcCode: RPC.invalidParams });
    }
    this.#call = {
      toolUseId: TOOL_USE_ID_KEYS.map((key) => input.meta[key]).find((id) => typeof id === "string") ?? null,
      name: wireToolName(input.name),
      argumentsDigest: ports.digest.sha256Hex(argumentsJson),
    };
  }

  /**
   * Nobody waits for the answer any more. A call that has left goes on until its server has answered, its time is over or
   * its run is cancelled: the ledger tells what it came to, and whoever goes on with the turn uses it.
   */
  leave(reason: PlatformError): void {
    this.#left ??= reason;
  }

  /** Rejects only when the engine may not go on (`slot_unknown`, `stale_generation`, `run_cancelled`). */
  async answer(): Promise<ShapedResult> {
    try {
      return await this.#answer();
    } catch (thrown) {
      const error = asPlatformError(thrown);
      if (error.facts.status === 410) throw error;
      // A gate that cannot decide denies; the model may read why.
      if (error.facts.fault === "platform") this.#ports.log.error("a tool call could not be decided", thrown);
      return refusal(error.code, error.detail);
    }
  }

  async #answer(): Promise<ShapedResult> {
    for (;;) {
      const result = await this.#attempt();
      if (result !== null) return result;
      // While it waited anything may have changed that was looked at before: the tool, the policy.
      this.#ports.catalog.distrust(this.#server());
    }
  }

  /** `null` when the call has waited for a decision, and is to be looked at again from the start. */
  async #attempt(): Promise<ShapedResult | null> {
    const { record } = this.#ports;
    const { tokenHash, view, name } = this.#input;
    const process = this.#ports.process();
    const allowed = judgeToolCall(view.snapshot, name);
    const verdict = allowed.kind === "allow" ? await this.#checked(allowed.value) : allowed;
    const unreachable = verdict.kind === "deny" && verdict.code === "tool_upstream_failed";
    if (verdict.kind !== "allow" && !unreachable) {
      const { code, reason } =
        verdict.kind === "deny" ? verdict : { code: "tool_not_allowed" as const, reason: verdict.reason };
      await record.denyToolCall({ ...this.#call, tokenHash, process, code, reason });
      return refusal(code, reason);
    }
    if (this.#left !== null) throw this.#left;
    const grant = await this.#granted(process);
    if (grant.kind === "waited") return null;
    if (grant.kind === "replay") return replayed(grant);
    const tool = allowed.kind === "allow" ? allowed.value : null;
    const isGranted = tool !== null && tool.server === grant.server && tool.tool === grant.tool;
    if (isGranted && !this.#isWhatWasJudged(grant, tool)) {
      return this.#settled(grant, failed("approval_changed", "The call is not the one that was judged."));
    }
    const conditions = readConditions(grant.conditions);
    if (conditions === null) {
      return this.#settled(grant, failed("policy_unavailable", "The policy demands what this gate cannot do."));
    }
    const outcome =
      verdict.kind === "allow" && isGranted && verdict.value !== null
        ? await this.#carryOut(grant, { tool, server: verdict.value, conditions })
        : failed(
            verdict.kind === "deny" ? verdict.code : "internal",
            verdict.kind === "deny" ? verdict.reason : "The ledger names another tool.",
          );
    return this.#settled(grant, outcome);
  }

  #server(): string {
    const { view, name } = this.#input;
    return view.snapshot.tools.find((each) => each.name === wireToolName(name))?.server ?? "";
  }

  /** What carries it out, when it is still what the agent was given; `null`: the caller, who is asked by the ledger. */
  async #checked(tool: SnapshotTool): Promise<Verdict<ToolServer | null>> {
    if (isClientTool(tool)) return this.#ports.catalog.judgeArguments(tool, this.#input.arguments);
    return await this.#pinned(tool);
  }

  /** Whether the tool is what was pinned, for the catalogue and for the connection that the call will take. */
  async #pinned(tool: SnapshotTool): Promise<Verdict<ToolServer>> {
    const verdict = await this.#ports.catalog.judge(tool, this.#input.arguments);
    if (verdict.kind !== "allow") return verdict;
    return (await this.#ports.pool.drift(this.#place(tool.server), tool)) ?? verdict;
  }

  /** One agent's calls for one user share what a server keeps, and nobody else's. */
  #place(server: string): PoolPlace {
    const { tenantId, actor, snapshot } = this.#input.view;
    return { server, principal: JSON.stringify([tenantId, actor.user, snapshot.agentId, "agent"]) };
  }

  /** Judges the call's message first where the ledger has no verdict by the policy of now; the first verdict counts. */
  async #granted(process: number): Promise<Exclude<KeptGrant, { readonly kind: "judge" }>> {
    const { record, judge, begun } = this.#ports;
    const { tokenHash, view } = this.#input;
    for (let look = 0; look < JUDGED_AT_MOST; look += 1) {
      const intent = { ...this.#call, tokenHash, process, policyVersion: judge.version() };
      const grant = await begun.open(intent, view.run?.runId ?? null);
      if (grant.kind !== "judge") return grant;
      if (this.#left !== null) throw this.#left;
      const { modelCallId, calls } = grant;
      const { policyVersion, judged } = await judgeMessage(this.#ports, { view, calls });
      const verdicts = judged.map(({ toolCallId, verdict }) => ({ ...verdict, toolCallId }));
      await record.recordVerdicts({ tokenHash, process, modelCallId, policyVersion, verdicts });
    }
    throw new PlatformError("policy_unavailable", "The policy changed again and again while the call was judged.");
  }

  /** The second lock: what leaves is, to the letter, what was judged or approved. */
  #isWhatWasJudged(grant: Granted, tool: SnapshotTool): boolean {
    const { server, tool: name, argumentsJson, callDigest } = grant;
    const { definitionHash } = tool;
    return (
      callDigest === null ||
      callDigest === this.#ports.digest.sha256Hex(callDigestText({ server, tool: name, definitionHash, argumentsJson }))
    );
  }

  async #carryOut(
    grant: Granted,
    to: { readonly tool: SnapshotTool; readonly server: ToolServer; readonly conditions: CallConditions },
  ): Promise<Outcome> {
    const { open, catalog, callMs } = this.#ports;
    const { ending } = this.#input;
    const openCall = this.#openCall(grant);
    open.add(openCall);
    try {
      const request = {
        tool: grant.tool,
        argumentsJson: grant.argumentsJson,
        meta: this.#metaFor(grant),
        headers:
          to.server.config.transport === "http"
            ? parameterHeaders(to.tool.inputSchema, JSON.parse(grant.argumentsJson))
            : {},
        timeoutMs: Math.min(catalog.timeoutMs(grant.server, grant.tool) ?? callMs, to.conditions.timeoutMs),
        signal: ending.signal,
      };
      const answer = await this.#ports.pool.with(this.#place(grant.server), (connection) => connection.call(request));
      const outcome = answered(answer, to);
      return grant.isEdited ? told(outcome, grant) : outcome;
    } catch (thrown) {
      return this.#notAnswered(grant, thrown);
    } finally {
      open.remove(openCall);
    }
  }

  #notAnswered(grant: Granted, thrown: unknown): Outcome {
    const problem = thrown instanceof NotAnswered ? thrown : null;
    if (problem === null) this.#ports.log.error("a tool call failed inside the gate", thrown, { server: grant.server });
    const { signal } = this.#input.ending;
    const given =
      problem?.code === "run_cancelled" && signal.aborted ? asPlatformError(signal.reason).code : problem?.code;
    const code = given ?? asPlatformError(thrown).code;
    const detail = problem?.message ?? "The tool could not be called.";
    if ((problem?.sent ?? true) && !isRepeatable(grant.effect)) {
      const text = `The outcome of this call is not known. ${detail} It may have taken effect: do not simply make it again.`;
      return { state: "unknown", errorCode: code, result: errorResult(text) };
    }
    // Lost with this gate: whoever goes on with the turn may make it again.
    return { ...failed(code, detail), ...(code === "shutting_down" ? { state: "unknown" } : {}) };
  }

  async #settled(grant: Granted, { result, state, errorCode }: Outcome): Promise<ShapedResult> {
    const { record, log, begun, settling } = this.#ports;
    const settlement = {
      toolCallId: grant.toolCallId,
      state,
      errorCode,
      resultJson: result.json,
      resultSummary: result.summary,
    };
    try {
      await settling.firmly(() => record.settleToolCall(settlement));
      return result;
    } catch (thrown) {
      log.error("the outcome of a tool call could not be recorded", thrown, { toolCallId: grant.toolCallId });
      return errorResult("The tool was called, but its outcome could not be recorded.");
    } finally {
      begun.ended(grant.toolCallId);
    }
  }

  #metaFor(grant: Granted): Json {
    const { randomness } = this.#ports;
    const traceId = this.#input.view.run?.traceId ?? "";
    const span = Buffer.from(randomness.bytes(8)).toString("hex");
    return {
      "signalbox/idempotencyKey": grant.idempotencyKey,
      ...(/^[0-9a-f]{32}$/.test(traceId) ? { traceparent: `00-${traceId}-${span}-01` } : {}),
    };
  }

  #openCall(grant: Granted): OpenCall {
    const { tokenHash, view, ending } = this.#input;
    return {
      tokenHash,
      conversationId: view.conversationId,
      runId: grant.runId,
      generation: view.run?.generation ?? 0,
      mustBeKnown: true,
      cut: (code) => ending.abort(new PlatformError(code)),
    };
  }
}

const NEEDS_INPUT = "The tool asks for input before it does anything, and a run cannot give it.";

function answered(
  answer: RpcAnswer,
  { server, conditions }: { readonly server: ToolServer; readonly conditions: CallConditions },
): Outcome {
  const { redacted, resultBytes } = conditions;
  if (answer.kind === "error") {
    // No server is told that it may ask; one that has to says so.
    if (answer.code === RPC.missingCapability) return failed("tool_input_required", NEEDS_INPUT);
    const why = redacted.length === 0 ? scrubbed(answer.message, server) : "the policy hides why.";
    return { state: "failed", errorCode: null, result: errorResult(`The tool refused the call: ${why}`) };
  }
  if ((answer.result.resultType ?? "complete") !== "complete") return failed("tool_input_required", NEEDS_INPUT);
  const result = shapeResult(withoutRedacted(answer.result, redacted), resultBytes);
  return { state: result.isError ? "failed" : "succeeded", errorCode: null, result };
}

function failed(code: ErrorCode, detail: string): Outcome {
  return { state: "failed", errorCode: code, result: errorResult(`${detail} (${code})`) };
}

function replayed(grant: Extract<ToolGrant, { readonly kind: "replay" }>): ShapedResult {
  if (grant.resultJson === "") {
    return errorResult(`This call was made before; its outcome is recorded as ${grant.state}.`);
  }
  // A person may have answered in place of the tool: then the result of a denial is no error.
  return { json: grant.resultJson, summary: "", isError: grant.state !== "succeeded" && !isAnswer(grant.resultJson) };
}

function isAnswer(resultJson: string): boolean {
  const result: unknown = JSON.parse(resultJson);
  return typeof result === "object" && result !== null && "isError" in result && result.isError === false;
}

/** The model goes on from the arguments it wrote; that others were used it learns here. */
function told(outcome: Outcome, grant: Granted): Outcome {
  const note = `A person changed the arguments of this call before it was made: ${grant.argumentsJson}`;
  return { ...outcome, result: withNote(outcome.result, note) };
}

const MESSAGE_CHARS_MAX = 2_000;

/** Words of a server about itself may name where it stands; that is nobody's business but the operator's. */
function scrubbed(message: string, { config, name }: ToolServer): string {
  const text = placesOf(config)
    .filter((each) => each.length > 3)
    .reduce((said, each) => said.replaceAll(each, `<${name}>`), message);
  return text.slice(0, MESSAGE_CHARS_MAX).toWellFormed();
}
