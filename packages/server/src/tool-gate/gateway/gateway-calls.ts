/**
 * Calls of tools that clients of the gateway make by themselves: judged, recorded, carried out by whoever knows the way,
 * recorded again. What the client reads is what the ledger keeps.
 */
import {
  asPlatformError,
  clip,
  makeId,
  PlatformError,
  uuidV7Bytes,
  type ErrorCode,
  type GatewayCallId,
} from "@signalbox/contract";
import {
  callDigestText,
  callVerdict,
  isRepeatable,
  type AskedGatewayCall,
  type Clock,
  type Digest,
  type GatewayRecord,
  type JsonObject,
  type Log,
  type Randomness,
} from "@signalbox/core";
import { canonicalArguments } from "../../gates/canonical-arguments.ts";
import type { ClientJudge, ClientVerdict } from "../../gates/client-judge.ts";
import type { Settling } from "../../gates/settling.ts";
import { readConditions, withoutRedacted, type CallConditions } from "../call-conditions.ts";
import { RPC, type Json } from "../mcp-protocol.ts";
import type { McpReply } from "../mcp-reply.ts";
import { McpProblem, type McpRequest } from "../mcp-request.ts";
import { NotAnswered } from "../rpc-wire.ts";
import type { UpstreamPool } from "../upstream-pool.ts";
import type { CatalogTool, ToolCatalog } from "../tool-catalog.ts";
import { wellFormedBody } from "../strict-json.ts";
import { errorResult, refusal, shapeResult } from "../tool-result.ts";
import { awaitDecision, type Begun } from "./asked-calls.ts";
import { carriedOf, isShort, SUMMARY_CHARS, summaryOf, TEXT_BYTES_MAX, told } from "./client-result.ts";
import type { Exchange } from "./exchange.ts";
import { traceOf } from "./client-trace.ts";
import { ClientLedger } from "./client-ledger.ts";
import { clientVerdict } from "./offered.ts";
import type { CarriedState, CarriedStates } from "./carried-state.ts";
import { unknownTool } from "./unknown-tool.ts";

export interface GatewayCallPorts {
  readonly record: GatewayRecord;
  readonly catalog: ToolCatalog;
  readonly judge: ClientJudge;
  readonly states: CarriedStates;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly settling: Settling;
  /** Incarnation of this process. Throws while the process is not sure of it. */
  readonly process: () => number;
  /** For tools without a time of their own. */
  readonly callMs: number;
}

export interface ClientCall {
  readonly exchange: Exchange;
  readonly message: McpRequest;
  readonly reply: McpReply;
  readonly tool: CatalogTool;
  /** Whether the principal's own connection carries it, and has to list the tool as it was pinned. */
  readonly pooled: UpstreamPool | null;
  /** Aborted when nobody waits for the answer any more. */
  readonly gone: AbortSignal;
}

/** A call whose intent is committed. */
export interface BegunCall {
  readonly callId: GatewayCallId;
  readonly principal: string;
  readonly tool: CatalogTool;
  readonly argumentsJson: string;
  /** Whether a person changed the arguments. */
  readonly isEdited: boolean;
  /** Whether a person approved it. */
  readonly isApproved: boolean;
  /** What of the rounds before goes to the server with it. */
  readonly carried: Json;
  /** What goes with the call to its server: a key that is the same on every repetition, and where the call belongs. */
  readonly meta: Json;
  readonly timeoutMs: number;
  readonly mayRepeat: boolean;
  readonly conditions: CallConditions;
}

/** A result of MCP as JSON text, recorded already. */
export type Answered = string;

/** Calls of a client that are made meanwhile make it be judged again; what goes on so is refused. */
const JUDGED_AT_MOST = 5;

type Judged = Omit<ClientVerdict, "policyVersion"> & { readonly policyVersion: string | null };
type Facts = ReturnType<GatewayCalls["factsOf"]>;

export class GatewayCalls {
  readonly #ports: GatewayCallPorts;
  readonly #ledger: ClientLedger;

  constructor(ports: GatewayCallPorts) {
    this.#ports = ports;
    this.#ledger = new ClientLedger(ports);
  }

  /** Begins the call, or answers why it is not made. Throws `McpProblem` for what is no call of a tool there is. */
  async begin(call: ClientCall): Promise<BegunCall | Answered> {
    const { message, exchange, tool } = call;
    const argumentsJson = canonicalArguments(message.params.arguments ?? {});
    if (argumentsJson === null) {
      throw new McpProblem("arguments must be an object.", { status: 200, rpcCode: RPC.invalidParams });
    }
    const holder = { principal: exchange.principal, server: tool.server, tool: tool.tool };
    const state = message.modern ? this.#ports.states.read(message.params, holder) : null;
    try {
      return await this.#begin(call, { facts: this.factsOf(call, argumentsJson), state });
    } catch (thrown) {
      if (thrown instanceof McpProblem) throw thrown;
      // A gate that cannot decide denies, and nothing has left.
      const error = asPlatformError(thrown);
      if (error.facts.fault === "platform") this.#ports.log.error("a client's call could not be decided", thrown);
      return refusal(error.code, error.detail).json;
    }
  }

  factsOf({ exchange, tool }: ClientCall, argumentsJson: string) {
    const { caller, principal, endpoint } = exchange;
    return {
      callId: this.#newId(),
      tenantId: caller.tenantId,
      actor: caller.actor,
      principal,
      endpoint,
      server: tool.server,
      tool: tool.tool,
      effect: tool.effect,
      argumentsJson,
      argumentsDigest: this.#ports.digest.sha256Hex(argumentsJson),
    };
  }

  async #begin(
    call: ClientCall,
    { facts, state }: { readonly facts: Facts; readonly state: CarriedState | null },
  ): Promise<BegunCall | Answered> {
    const { record } = this.#ports;
    const { tool, message } = call;
    const trace = traceOf(message.meta, this.#ports.randomness);
    for (let look = 0; look < JUDGED_AT_MOST; look += 1) {
      const process = this.#ports.process();
      // A client's arguments are an object, which was looked at above.
      const input = (message.params.arguments ?? {}) as JsonObject;
      const judged = await this.#judge(call, { input, callId: null });
      const conditions = readConditions(judged.verdict.conditions);
      if (judged.verdict.verdict === "deny" || conditions === null) {
        return this.#refused(call, { facts, judged, waiting: state?.kind === "waiting" ? state.callId : null });
      }
      const { policyVersion, isCounted, asOf, verdict: judgement } = judged;
      const shared = {
        ...facts,
        process,
        definitionHash: tool.definitionHash,
        traceId: trace.id,
        policyVersion,
        judgement,
      };
      const begun = { callId: facts.callId, argumentsJson: facts.argumentsJson, isEdited: false, conditions };
      if (state?.kind === "continued") {
        const callDigest = this.#digestOf(tool, facts.argumentsJson);
        const { callId, principal } = facts;
        const continues = state.callId;
        if (await record.continueAsked({ callId, process, continues, principal, callDigest })) {
          return this.#begun(call, {
            ...begun,
            isApproved: true,
            trace: trace.parent,
            carried: carriedOf(message, state),
          });
        }
      }
      if (judgement.verdict === "ask" || state !== null) {
        return await this.#approved(call, { shared, state, trace: trace.parent });
      }
      if ((await this.#ledger.begin({ ...shared, isCounted, asOf })) === "begun") {
        return this.#begun(call, {
          ...begun,
          isApproved: false,
          trace: trace.parent,
          carried: carriedOf(message, null),
        });
      }
    }
    throw new PlatformError("policy_unavailable", "The calls that this one is counted with change again and again.");
  }

  #begun(
    { tool, exchange }: ClientCall,
    given: Pick<BegunCall, "callId" | "argumentsJson" | "isEdited" | "isApproved" | "carried" | "conditions"> & {
      readonly trace: string;
    },
  ): BegunCall {
    const { trace, ...rest } = given;
    const { catalog, callMs } = this.#ports;
    const timeoutMs = catalog.timeoutMs(tool.server, tool.tool) ?? callMs;
    return {
      ...rest,
      principal: exchange.principal,
      tool,
      meta: { "signalbox/idempotencyKey": rest.callId, traceparent: trace },
      timeoutMs: Math.min(timeoutMs, rest.conditions.timeoutMs),
      mayRepeat: isRepeatable(tool.effect),
    };
  }

  async #refused(
    { tool, message }: ClientCall,
    { facts, judged, waiting }: { readonly facts: Facts; readonly judged: Judged; readonly waiting: string | null },
  ): Promise<Answered> {
    const { record } = this.#ports;
    const { verdict, policyVersion } = judged;
    const code = verdict.verdict === "deny" ? (verdict.code ?? "policy_denied") : "policy_unavailable";
    const reason = verdict.verdict === "deny" ? verdict.reason : "The policy demands what this gate cannot do.";
    if (waiting !== null) {
      const key = {
        callId: waiting,
        principal: facts.principal,
        callDigest: this.#digestOf(tool, facts.argumentsJson),
      };
      const asked = await record.asked(key);
      if (asked !== null) await record.refuseAsked({ callId: asked.callId, code, reason });
    }
    await record.refuse({ ...facts, policyVersion, judgement: verdict, code, reason });
    // What belongs to another part of the organisation does not exist for this client.
    if (verdict.rules.some((rule) => rule.startsWith("guard."))) throw unknownTool(String(message.params.name));
    return refusal(code, reason).json;
  }

  /** Asks a person, or finds out what became of the question. */
  async #approved(
    call: ClientCall,
    given: {
      readonly shared: Omit<Parameters<GatewayRecord["ask"]>[0], "title" | "callDigest">;
      readonly state: CarriedState | null;
      readonly trace: string;
    },
  ): Promise<BegunCall | Answered> {
    const { record, states, clock, digest, process } = this.#ports;
    const { tool, message, reply, gone } = call;
    const { shared, state, trace } = given;
    const { principal, argumentsJson } = shared;
    const callDigest = this.#digestOf(tool, argumentsJson);
    const known = state === null ? null : await record.asked({ callId: state.callId, principal, callDigest });
    const asked = known ?? (await record.ask({ ...shared, title: tool.title, callDigest }));
    const judge = (now: AskedGatewayCall) => this.#judgeApproved(call, now);
    const ports = { record, states, clock, digest, process, judge };
    const waiting = { principal, message, reply, tool, callDigest, gone, knows: known !== null };
    const answer: Begun<CallConditions> | string = await awaitDecision(ports, waiting, asked);
    if (typeof answer === "string") return answer;
    const { policyVersion: _, ...rest } = answer;
    return this.#begun(call, { ...rest, isApproved: true, trace, carried: {} });
  }

  /** What was approved, at the moment it is to be made. What was asked about may be asked about still. */
  async #judgeApproved(call: ClientCall, asked: AskedGatewayCall) {
    const { callId, argumentsJson } = asked;
    // The ledger keeps objects only.
    const input = JSON.parse(argumentsJson) as JsonObject;
    const { verdict, policyVersion } = await this.#judge(call, { input, callId });
    const conditions = readConditions(verdict.conditions);
    if (verdict.verdict !== "deny" && conditions !== null) return { conditions, policyVersion: policyVersion ?? "" };
    const code = verdict.code ?? "policy_unavailable";
    const reason = verdict.verdict === "deny" ? verdict.reason : "The policy demands what this gate cannot do.";
    await this.#ports.record.refuseAsked({ callId, code, reason });
    return refusal(code, reason).json;
  }

  #digestOf({ server, tool, definitionHash }: CatalogTool, argumentsJson: string): string {
    return this.#ports.digest.sha256Hex(callDigestText({ server, tool, definitionHash, argumentsJson }));
  }

  /** The tool answered. */
  async answered(call: BegunCall, result: Json): Promise<Answered> {
    const { redacted, resultBytes } = call.conditions;
    const asks = result.resultType !== undefined && result.resultType !== "complete";
    if (asks && redacted.length > 0) {
      const detail = "The tool asks for input, and the policy hides parts of what it says.";
      return this.lost(call, { code: "tool_input_required", sent: false, detail });
    }
    const { resultType, ...rest } = asks ? this.#covered(call, result) : told(call, withoutRedacted(result, redacted));
    const whole = resultType === undefined ? rest : { resultType, ...rest };
    const isWhole = asks || isShort(whole, Math.min(TEXT_BYTES_MAX, resultBytes));
    const json = isWhole ? wellFormedBody(JSON.stringify(whole)) : shapeResult(whole, resultBytes).json;
    const state = result.isError === true ? "failed" : "succeeded";
    return this.#ledger.settled(call, { state, errorCode: null, json, summary: summaryOf(whole) });
  }

  /** The tool's server refused in words of the protocol, without anything of its place. Answers what the client may read. */
  async refused(call: BegunCall, error: { readonly code: number; readonly message: string }): Promise<string> {
    const message = call.conditions.redacted.length === 0 ? error.message : "the policy hides why.";
    const json = errorResult(`The tool refused the call: ${message}`).json;
    await this.#ledger.settled(call, { state: "failed", errorCode: null, json, summary: clip(message, SUMMARY_CHARS) });
    return message;
  }

  /** No answer came. A call that may have acted is unknown, never simply failed. */
  async lost(call: BegunCall, problem: { readonly code: ErrorCode; readonly sent: boolean; readonly detail: string }) {
    const unknown = problem.sent && !call.mayRepeat;
    const text = unknown
      ? `The outcome of this call is not known. ${problem.detail} It may have taken effect: do not simply make it again.`
      : `${problem.detail} (${problem.code})`;
    const state = unknown ? ("unknown" as const) : ("failed" as const);
    return this.#ledger.settled(call, {
      state,
      errorCode: problem.code,
      json: errorResult(text).json,
      summary: problem.detail,
    });
  }

  /** As `lost`, from what a wire threw. */
  async threw(call: BegunCall, thrown: unknown): Promise<Answered> {
    if (thrown instanceof NotAnswered) {
      return this.lost(call, { code: thrown.code, sent: thrown.sent, detail: thrown.message });
    }
    this.#ports.log.error("a client's call failed inside the gateway", thrown, { server: call.tool.server });
    return this.lost(call, { code: asPlatformError(thrown).code, sent: true, detail: "The tool could not be called." });
  }

  /** An answer after the call was given up. Never fails: the client was answered long ago. */
  async late(call: BegunCall, answer: Json): Promise<void> {
    const { redacted } = call.conditions;
    try {
      const kept = redacted.length === 0 ? answer : withoutRedacted(answer, redacted);
      await this.#ports.record.noteLate(call.callId, JSON.stringify(kept));
    } catch (thrown) {
      this.#ports.log.error("a late result could not be recorded", thrown, { gatewayCallId: call.callId });
    }
  }

  /** An approval covers the rounds that follow: what the server gives for them goes along with it. */
  #covered({ isApproved, callId, principal, tool }: BegunCall, result: Json): Json {
    if (!isApproved) return result;
    const upstream = typeof result.requestState === "string" ? result.requestState : null;
    const holder = { principal, server: tool.server, tool: tool.tool };
    return { ...result, requestState: this.#ports.states.seal(callId, { kind: "continued", upstream }, holder) };
  }

  async #judge(
    { tool, exchange, pooled }: ClientCall,
    { input, callId }: { readonly input: JsonObject; readonly callId: GatewayCallId | null },
  ): Promise<Judged> {
    const { catalog, judge } = this.#ports;
    const { caller, principal } = exchange;
    const denied = (code: ErrorCode, reason: string): Judged => {
      const verdict = callVerdict({ verdict: "deny", code, reason });
      return { verdict, policyVersion: null, isCounted: false, asOf: null };
    };
    const allowed = clientVerdict(catalog, tool);
    if (allowed.kind !== "allow") return denied("tool_not_allowed", allowed.reason);
    const pinned = await catalog.judge(tool, input);
    if (pinned.kind === "ask") return denied("tool_not_allowed", pinned.reason);
    if (pinned.kind === "deny") return denied(pinned.code, pinned.reason);
    const drift = await pooled?.drift({ server: tool.server, principal }, tool);
    if (drift?.kind === "deny") return denied(drift.code, drift.reason);
    return judge.judge({ ...caller, principal }, { tool, input, callId });
  }

  #newId(): GatewayCallId {
    const { clock, randomness } = this.#ports;
    return makeId("gatewayCall", uuidV7Bytes(clock.nowMs(), randomness.bytes(10)));
  }
}
