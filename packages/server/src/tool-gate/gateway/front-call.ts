/** A client's call of a tool through a front: judged and recorded, carried out over the principal's own connection. */
import { isObject, type Json } from "../mcp-protocol.ts";
import type { McpReply } from "../mcp-reply.ts";
import type { McpRequest } from "../mcp-request.ts";
import { parameterHeaders } from "../parameter-headers.ts";
import { NotAnswered, type RpcAnswer } from "../rpc-wire.ts";
import { errorResult } from "../tool-result.ts";
import { goneSignal, type Exchange } from "./exchange.ts";
import type { FrontPorts } from "./front.ts";
import { passedMeta } from "./front-lists.ts";
import type { BegunCall } from "./gateway-calls.ts";
import { renameUris } from "./naming.ts";
import { offeredTool } from "./offered.ts";
import { inEra } from "./relayed-call.ts";
import { unknownTool } from "./unknown-tool.ts";

interface Calling {
  readonly exchange: Exchange;
  readonly message: McpRequest;
  readonly reply: McpReply;
  readonly cancelled: AbortSignal;
}

export class FrontCall {
  readonly #ports: FrontPorts;
  readonly #calling: Calling;

  constructor(ports: FrontPorts, calling: Calling) {
    this.#ports = ports;
    this.#calling = calling;
  }

  async run(): Promise<void> {
    const { calls, clock, quietMs, pool: pooled } = this.#ports;
    const { exchange, message, reply } = this.#calling;
    const tool = this.#tool();
    const begun = await calls.begin({ exchange, message, reply, tool, pooled, gone: this.#signal() });
    if (typeof begun === "string") {
      reply.result(inEra(begun, message.modern));
      return;
    }
    const done = new AbortController();
    const alive = reply.keepAlive(clock, quietMs, done.signal);
    try {
      reply.result(inEra(await this.#carryOut(begun), message.modern));
    } finally {
      done.abort("answered");
      await alive;
    }
  }

  #tool() {
    const { catalog, naming, servers, single } = this.#ports;
    const { name } = this.#calling.message.params;
    // Prefixed names may be shortened, so they are looked for as they are listed.
    const found = single === null ? catalog.tools().find((each) => each.name === name) : undefined;
    const named =
      single === null
        ? found === undefined
          ? null
          : { server: found.server, name: found.tool }
        : naming.parseName(name);
    if (named === null || !servers.includes(named.server)) throw unknownTool(String(name));
    return offeredTool(catalog, named);
  }

  async #carryOut(begun: BegunCall): Promise<string> {
    const { calls, pool } = this.#ports;
    const { principal } = this.#calling.exchange;
    const { server } = begun.tool;
    try {
      return await this.#outcome(
        begun,
        await pool.with({ server, principal }, (connection) => connection.call(this.#request(begun))),
      );
    } catch (thrown) {
      if (!this.#mayAskAgain(begun, thrown)) return calls.threw(begun, thrown);
    }
    // What has not left, and what changes nothing, may be asked once more of a server that came back.
    try {
      return await this.#outcome(
        begun,
        await pool.with({ server, principal }, (connection) => connection.call(this.#request(begun))),
      );
    } catch (thrown) {
      return calls.threw(begun, thrown);
    }
  }

  #mayAskAgain(begun: BegunCall, thrown: unknown): boolean {
    if (!(thrown instanceof NotAnswered) || thrown.code !== "tool_upstream_failed") return false;
    return (begun.mayRepeat || !thrown.sent) && !this.#signal().aborted;
  }

  #signal(): AbortSignal {
    const { exchange, cancelled } = this.#calling;
    return AbortSignal.any([goneSignal(exchange.response), cancelled, this.#ports.stopping]);
  }

  #request(begun: BegunCall) {
    const { message } = this.#calling;
    const { tool, argumentsJson, timeoutMs } = begun;
    const token = message.meta.progressToken;
    const ours = `p-${begun.callId}`;
    const input: unknown = JSON.parse(argumentsJson);
    const config = this.#ports.pool.config(tool.server);
    return {
      tool: tool.tool,
      argumentsJson,
      rest: begun.carried,
      meta: { ...passedMeta(message), ...begun.meta, ...(token === undefined ? {} : { progressToken: ours }) },
      headers: config?.transport === "http" ? parameterHeaders(tool.inputSchema, input) : {},
      timeoutMs,
      signal: this.#signal(),
      onMessage: (said: Json) => {
        // What is said on the way is not a result, and nobody could say what of it the policy hides.
        if (begun.conditions.redacted.length === 0) this.#tell(said, { token, ours });
      },
      onLate: (answer: RpcAnswer) => void this.#ports.calls.late(begun, lateAnswer(answer)),
    };
  }

  /** How far the call is, under the token of whoever wants to know. */
  #tell({ method, params }: Json, { token, ours }: { readonly token: unknown; readonly ours: string }): void {
    if (token === undefined || method !== "notifications/progress" || !isObject(params)) return;
    if (params.progressToken !== ours) return;
    const told = { jsonrpc: "2.0", method, params: { ...params, progressToken: token } };
    this.#calling.reply.frame(`event: message\ndata: ${JSON.stringify(told)}\n\n`);
  }

  async #outcome(begun: BegunCall, answer: RpcAnswer): Promise<string> {
    const { calls, naming, scrub } = this.#ports;
    const { server } = begun.tool;
    if (answer.kind === "error") {
      const message = await calls.refused(begun, { code: answer.code, message: scrub(server, answer.message) });
      return errorResult(`The tool refused the call: ${message}`).json;
    }
    const asks = answer.result.resultType !== undefined && answer.result.resultType !== "complete";
    if (asks && !this.#calling.message.modern) {
      const detail = "The tool asks for input, which this revision of the protocol cannot carry.";
      return calls.lost(begun, { code: "tool_input_required", sent: false, detail });
    }
    const { resultType, ...rest } = answer.result;
    const kept = asks ? { resultType, ...rest } : rest;
    return calls.answered(begun, renameUris(naming, server, kept));
  }
}

function lateAnswer(answer: RpcAnswer): Json {
  return answer.kind === "result" ? answer.result : { error: answer.message };
}
