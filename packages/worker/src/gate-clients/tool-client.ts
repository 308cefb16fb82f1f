/**
 * The tool gate as an engine of ours sees it: MCP 2026-07-28, stateless, one POST per request. Closing the request is
 * how a call is cancelled. A call may be sent again under its tool-use id: the gate's ledger knows it.
 */
import type { IncomingMessage } from "node:http";
import { PlatformError, wellFormedJson } from "@signalbox/contract";
import { createParser } from "eventsource-parser";
import { toolGateError } from "./gate-errors.ts";
import type { GateConnections, GateRequest } from "./gate-connections.ts";
import type { JsonObject } from "./model-message.ts";

const PROTOCOL_VERSION = "2026-07-28";
const BODY_BYTES_MAX = 16 * 1024 * 1024;
const LIST_PAGES_MAX = 100;

/** One tool call, by the name the model was shown (`server__tool`). */
export interface ToolCall {
  readonly name: string;
  readonly input: JsonObject;
  /** The provider's id of the call, which the gate matches with what the model proposed. */
  readonly toolUseId: string;
  readonly signal: AbortSignal;
}

/** A content block of MCP; members depend on `type`. */
export interface ToolContent {
  readonly type: string;
  readonly text?: string;
  readonly data?: string;
  readonly mimeType?: string;
  readonly resource?: { readonly text?: string; readonly uri?: string };
  readonly uri?: string;
}

/** What a tool answered, as the model is to read it. */
export interface ToolOutcome {
  readonly content: readonly ToolContent[];
  /** True also for a denial: the model reads the reason and goes on. */
  readonly isError: boolean;
}

/** A tool the snapshot grants, as the gate lists it, with the JSON schema of its input. */
export interface ListedTool {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
}

interface RpcAnswer {
  readonly id?: unknown;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code?: number; readonly message?: string; readonly data?: { readonly code?: unknown } };
}

/** Lists and calls tools at the tool gate for one session, with the session's slot token as the only credential. */
export class ToolClient {
  readonly #connections: GateConnections;
  readonly #url: URL;
  readonly #slotToken: string;
  readonly #client: { readonly name: string; readonly version: string };
  #requestCount = 0;

  constructor(
    connections: GateConnections,
    gate: { readonly toolUrl: string; readonly slotToken: string },
    client: { readonly name: string; readonly version: string },
  ) {
    this.#connections = connections;
    this.#url = new URL(gate.toolUrl);
    this.#slotToken = gate.slotToken;
    this.#client = client;
  }

  /**
   * Resolves with what the tool said, which includes a refusal of this one call. Rejects when the run may not go on
   * (`stale_generation`, `run_cancelled` …) or the gate cannot be reached (`tool_upstream_failed`).
   */
  async call(call: ToolCall): Promise<ToolOutcome> {
    const answer = await this.#request("tools/call", {
      name: call.name,
      signal: call.signal,
      params: { name: call.name, arguments: call.input },
      meta: { "signalbox/toolUseId": call.toolUseId },
    });
    if (answer.error !== undefined) {
      return { content: [{ type: "text", text: answer.error.message ?? "The call was refused." }], isError: true };
    }
    const { content, isError, resultType } = answer.result ?? {};
    if (resultType === "input_required") {
      return {
        content: [{ type: "text", text: "The tool asks for input, which this run cannot give." }],
        isError: true,
      };
    }
    return {
      // The gate relays what MCP defines here; members are read one by one, each by its type.
      content: Array.isArray(content) ? (wellFormedJson(content) as readonly ToolContent[]) : [],
      isError: isError === true,
    };
  }

  async list(signal: AbortSignal): Promise<readonly ListedTool[]> {
    const tools: ListedTool[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < LIST_PAGES_MAX; page += 1) {
      const params: JsonObject = cursor === undefined ? {} : { cursor };
      const answer = await this.#request("tools/list", { signal, params, meta: {} });
      if (answer.error !== undefined) {
        throw new PlatformError("tool_upstream_failed", answer.error.message);
      }
      // As above: the gate lists what MCP defines.
      tools.push(...((answer.result?.tools ?? []) as readonly ListedTool[]));
      if (typeof answer.result?.nextCursor !== "string") {
        return tools;
      }
      cursor = answer.result.nextCursor;
    }
    throw new PlatformError("tool_upstream_failed", `The tool gate lists more than ${LIST_PAGES_MAX} pages.`);
  }

  async #request(
    method: string,
    request: {
      readonly name?: string;
      readonly signal: AbortSignal;
      readonly params: JsonObject;
      readonly meta: JsonObject;
    },
  ): Promise<RpcAnswer> {
    this.#requestCount += 1;
    const id = this.#requestCount;
    const meta = {
      ...request.meta,
      "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
      "io.modelcontextprotocol/clientInfo": this.#client,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const order: GateRequest = {
      url: this.#url,
      headers: {
        authorization: `Bearer ${this.#slotToken}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": PROTOCOL_VERSION,
        "mcp-method": method,
        ...(request.name === undefined ? {} : { "mcp-name": request.name }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...request.params, _meta: meta } }),
      signal: request.signal,
      unreachable: "tool_upstream_failed",
      silent: "tool_timeout",
    };
    const response = await this.#connections.post(order);
    if (response.headers["content-type"]?.startsWith("text/event-stream") === true) {
      return this.#readStream(response, order, id);
    }
    const body = await this.#connections.readText(response, order, BODY_BYTES_MAX);
    const answer = parseAnswer(body, id);
    const status = response.statusCode ?? 0;
    // A refusal of the protocol itself (400 and a JSON-RPC error) is about this call; anything else about the run.
    if (status !== 200 && !(status === 400 && answer?.error !== undefined)) {
      throw toolGateError(status, response.headers, body);
    }
    if (answer === null) {
      throw new PlatformError("tool_upstream_failed", "The tool gate's answer is not one to this request.");
    }
    return answer;
  }

  async #readStream(response: IncomingMessage, order: GateRequest, id: number): Promise<RpcAnswer> {
    const decoder = new TextDecoder();
    let found: RpcAnswer | null = null;
    const parser = createParser({
      onEvent: ({ data }) => {
        found ??= parseAnswer(data, id);
      },
      maxBufferSize: BODY_BYTES_MAX,
    });
    for await (const chunk of this.#connections.read(response, order, "tool_upstream_failed")) {
      parser.feed(decoder.decode(chunk, { stream: true }));
    }
    if (found === null) {
      throw new PlatformError("tool_upstream_failed", "The tool gate's stream ended without an answer.");
    }
    return found;
  }
}

/** The answer to request `id` in a text, or `null` when it is something else (a notification, not JSON). */
function parseAnswer(text: string, id: number): RpcAnswer | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) {
      return null;
    }
    // The members are optional, so any object fits.
    const answer = value as RpcAnswer;
    const answers = answer.id === id || (answer.id === null && answer.error !== undefined);
    return answers && (answer.result !== undefined || answer.error !== undefined) ? answer : null;
  } catch {
    return null;
  }
}
