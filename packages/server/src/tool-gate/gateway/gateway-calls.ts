/**
 * Calls of tools that clients of the gateway make by themselves: judged, recorded, carried out by whoever knows the way,
 * recorded again. What the client reads is what the ledger keeps.
 */
import { asPlatformError, clip, makeId, uuidV7Bytes, type ErrorCode, type GatewayCallId } from "@signalbox/contract";
import { isRepeatable, type Clock, type Digest, type GatewayRecord, type Log, type Randomness } from "@signalbox/core";
import { canonicalArguments } from "../../gates/canonical-arguments.ts";
import { settleFirmly } from "../../gates/settling.ts";
import { isObject, RPC, type Json } from "../mcp-protocol.ts";
import { McpProblem } from "../mcp-request.ts";
import { NotAnswered } from "../rpc-wire.ts";
import type { UpstreamPool } from "../upstream-pool.ts";
import type { CatalogTool, ToolCatalog } from "../tool-catalog.ts";
import { errorResult, refusal, shapeResult } from "../tool-result.ts";
import { clientVerdict } from "./offered.ts";
import { principalOf, type GatewayCaller } from "./gateway-caller.ts";

export interface GatewayCallPorts {
  readonly record: GatewayRecord;
  readonly catalog: ToolCatalog;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  /** Incarnation of this process. Throws while the process is not sure of it. */
  readonly process: () => number;
  /** For tools without a time of their own. */
  readonly callMs: number;
}

export interface ClientCall {
  readonly caller: GatewayCaller;
  /** The address the client used. */
  readonly endpoint: string;
  readonly tool: CatalogTool;
  readonly arguments: unknown;
  readonly meta: Json;
  /** Whether the principal's own connection carries it, and has to list the tool as it was pinned. */
  readonly pooled: UpstreamPool | null;
}

/** A call whose intent is committed. */
export interface BegunCall {
  readonly callId: GatewayCallId;
  readonly tool: CatalogTool;
  readonly argumentsJson: string;
  /** What goes with the call to its server: a key that is the same on every repetition, and where the call belongs. */
  readonly meta: Json;
  readonly timeoutMs: number;
  readonly mayRepeat: boolean;
}

/** A result of MCP as JSON text, recorded already. */
export type Answered = string;

const TEXT_BYTES_MAX = 40 * 1024;
const SUMMARY_CHARS = 200;
const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

export class GatewayCalls {
  readonly #ports: GatewayCallPorts;

  constructor(ports: GatewayCallPorts) {
    this.#ports = ports;
  }

  /** Begins the call, or answers why it is refused. Throws `McpProblem` for arguments that are none. */
  async begin(call: ClientCall): Promise<BegunCall | Answered> {
    const { digest, catalog, callMs } = this.#ports;
    const { caller, endpoint, tool } = call;
    const argumentsJson = canonicalArguments(call.arguments ?? {});
    if (argumentsJson === null) {
      throw new McpProblem("arguments must be an object.", { status: 200, rpcCode: RPC.invalidParams });
    }
    const callId = this.#newId();
    const trace = this.#trace(call.meta);
    const facts = {
      callId,
      tenantId: caller.tenantId,
      actor: caller.actor,
      endpoint,
      server: tool.server,
      tool: tool.tool,
      effect: tool.effect,
      argumentsJson,
      argumentsDigest: digest.sha256Hex(argumentsJson),
    };
    try {
      const process = this.#ports.process();
      const verdict = await this.#judge(call);
      if (verdict !== null) {
        await this.#ports.record.refuse({ ...facts, code: verdict.code, reason: verdict.reason });
        return refusal(verdict.code, verdict.reason).json;
      }
      const { definitionHash } = tool;
      await this.#ports.record.begin({ ...facts, process, definitionHash, traceId: trace.id });
    } catch (thrown) {
      // A gate that cannot decide denies, and nothing has left.
      const error = asPlatformError(thrown);
      if (error.facts.fault === "platform") this.#ports.log.error("a client's call could not be decided", thrown);
      return refusal(error.code, error.detail).json;
    }
    return {
      callId,
      tool,
      argumentsJson,
      meta: { "signalbox/idempotencyKey": callId, traceparent: trace.parent },
      timeoutMs: catalog.timeoutMs(tool.server, tool.tool) ?? callMs,
      mayRepeat: isRepeatable(tool.effect),
    };
  }

  /** The tool answered. */
  async answered(call: BegunCall, result: Json): Promise<Answered> {
    const { resultType, ...rest } = result;
    const whole = resultType === undefined ? rest : { resultType, ...rest };
    const json = isShort(result) ? JSON.stringify(whole) : shapeResult(result).json;
    const state = result.isError === true ? "failed" : "succeeded";
    return this.#settled(call, { state, errorCode: null, json, summary: summaryOf(result) });
  }

  /** The tool's server refused in words of the protocol. `message` is without anything of the server's place. */
  async refused(call: BegunCall, error: { readonly code: number; readonly message: string }): Promise<void> {
    const json = errorResult(`The tool refused the call: ${error.message}`).json;
    await this.#settled(call, { state: "failed", errorCode: null, json, summary: clip(error.message, SUMMARY_CHARS) });
  }

  /** No answer came. A call that may have acted is unknown, never simply failed. */
  async lost(call: BegunCall, problem: { readonly code: ErrorCode; readonly sent: boolean; readonly detail: string }) {
    const unknown = problem.sent && !call.mayRepeat;
    const text = unknown
      ? `The outcome of this call is not known. ${problem.detail} It may have taken effect: do not simply make it again.`
      : `${problem.detail} (${problem.code})`;
    const state = unknown ? ("unknown" as const) : ("failed" as const);
    return this.#settled(call, {
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
  async late(call: BegunCall, resultJson: string): Promise<void> {
    try {
      await this.#ports.record.noteLate(call.callId, resultJson);
    } catch (thrown) {
      this.#ports.log.error("a late result could not be recorded", thrown, { gatewayCallId: call.callId });
    }
  }

  async #judge({
    tool,
    caller,
    pooled,
    arguments: input = {},
  }: ClientCall): Promise<{ readonly code: ErrorCode; readonly reason: string } | null> {
    const { catalog } = this.#ports;
    const allowed = clientVerdict(catalog, tool);
    if (allowed.kind !== "allow") return { code: "tool_not_allowed", reason: allowed.reason };
    const pinned = await catalog.judge(tool, input);
    if (pinned.kind === "allow") {
      const place = { server: tool.server, principal: principalOf(caller) };
      return (await pooled?.drift(place, tool)) ?? null;
    }
    return pinned.kind === "deny" ? pinned : { code: "tool_not_allowed", reason: pinned.reason };
  }

  async #settled(
    call: BegunCall,
    outcome: {
      readonly state: "succeeded" | "failed" | "unknown";
      readonly errorCode: ErrorCode | null;
      readonly json: string;
      readonly summary: string;
    },
  ): Promise<Answered> {
    const { record, clock, log } = this.#ports;
    const { state, errorCode, json: resultJson, summary: resultSummary } = outcome;
    const settlement = { callId: call.callId, state, errorCode, resultJson, resultSummary };
    try {
      await settleFirmly(() => record.settle(settlement), { clock, log });
      return resultJson;
    } catch (thrown) {
      log.error("the outcome of a client's call could not be recorded", thrown, { gatewayCallId: call.callId });
      return errorResult("The tool was called, but its outcome could not be recorded.").json;
    }
  }

  #newId(): GatewayCallId {
    const { clock, randomness } = this.#ports;
    return makeId("gatewayCall", uuidV7Bytes(clock.nowMs(), randomness.bytes(10)));
  }

  /** The client's own trace goes on; a call without one begins a trace. */
  #trace(meta: Json): { readonly id: string; readonly parent: string } {
    const { randomness } = this.#ports;
    const given = typeof meta.traceparent === "string" ? TRACEPARENT.exec(meta.traceparent)?.[1] : undefined;
    const random = Buffer.from(randomness.bytes(24)).toString("hex");
    const id = given ?? random.slice(16);
    return { id, parent: `00-${id}-${random.slice(0, 16)}-01` };
  }
}

/** Whether the result passes as it is. */
function isShort(result: Json): boolean {
  const blocks = Array.isArray(result.content) ? result.content.filter(isObject) : [];
  const structured = result.structuredContent === undefined ? "" : JSON.stringify(result.structuredContent);
  let bytes = Buffer.byteLength(structured);
  for (const block of blocks) {
    const inner = isObject(block.resource) ? block.resource.text : block.text;
    if (typeof inner === "string") bytes += Buffer.byteLength(inner);
  }
  return bytes <= TEXT_BYTES_MAX;
}

function summaryOf(result: Json): string {
  const blocks = Array.isArray(result.content) ? result.content.filter(isObject) : [];
  const text = blocks.find((block) => block.type === "text")?.text;
  if (typeof text === "string") return clip(text, SUMMARY_CHARS);
  return result.resultType === "input_required" ? "It asked for input." : "";
}
