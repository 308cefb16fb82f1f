/** One POST of an engine as an MCP message: which revision it speaks, what it asks, or why it cannot be answered. */
import type { IncomingHttpHeaders } from "node:http";
import { wellFormedJson } from "@signalbox/contract";
import {
  HANDSHAKE_VERSIONS,
  isObject,
  META_VERSION,
  MODERN_VERSION,
  readHeaderValue,
  RPC,
  SUPPORTED_VERSIONS,
  type Json,
} from "./mcp-protocol.ts";
import { ambiguityIn, mayBeIllFormed } from "./strict-json.ts";

export type RpcId = string | number;

export interface McpRequest {
  readonly id: RpcId;
  readonly method: string;
  readonly params: Json;
  readonly meta: Json;
  /** Stateless requests of 2026-07-28, or requests after a handshake. */
  readonly modern: boolean;
}

export interface McpNotification {
  readonly method: string;
  readonly params: Json;
}

/** What a client says to a request of the server: an answer, under the id the server gave. */
export interface McpResponse {
  readonly responseTo: RpcId;
}

/** An answer of the protocol itself, before any gate has judged. */
export class McpProblem extends Error {
  readonly status: number;
  readonly rpcCode: number;
  readonly id: RpcId | null;
  readonly data: Json | null;

  constructor(message: string, answer: { status: number; rpcCode: number; id?: RpcId | null; data?: Json }) {
    super(message);
    this.status = answer.status;
    this.rpcCode = answer.rpcCode;
    this.id = answer.id ?? null;
    this.data = answer.data ?? null;
  }
}

/** Throws `McpProblem`. */
export function readMcpMessage(text: string, headers: IncomingHttpHeaders): McpRequest | McpNotification {
  const message = readClientMessage(text, headers);
  if (!("responseTo" in message)) return message;
  throw new McpProblem("The body must be one JSON-RPC request or notification.", {
    status: 400,
    rpcCode: RPC.invalidRequest,
  });
}

/** As `readMcpMessage`, where servers ask clients something and clients answer. */
export function readClientMessage(
  text: string,
  headers: IncomingHttpHeaders,
): McpRequest | McpNotification | McpResponse {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    throw new McpProblem("The body is not valid JSON.", { status: 400, rpcCode: RPC.parseError });
  }
  const ambiguity = ambiguityIn(text);
  if (ambiguity !== null) throw new McpProblem(ambiguity, { status: 400, rpcCode: RPC.invalidRequest });
  const readable = mayBeIllFormed(text) ? wellFormedJson(message) : message;
  const answeredId = isObject(readable) ? responseId(readable) : null;
  if (answeredId !== null) return { responseTo: answeredId };
  return readCall(readable, headers);
}

function responseId(message: Json): RpcId | null {
  const { id, method, result, error } = message;
  const isAnswer = method === undefined && (isObject(result) || isObject(error));
  return message.jsonrpc === "2.0" && isAnswer && (typeof id === "string" || typeof id === "number") ? id : null;
}

function readCall(message: unknown, headers: IncomingHttpHeaders): McpRequest | McpNotification {
  if (!isObject(message) || message.jsonrpc !== "2.0" || typeof message.method !== "string") {
    throw new McpProblem("The body must be one JSON-RPC request or notification.", {
      status: 400,
      rpcCode: RPC.invalidRequest,
    });
  }
  const params = message.params === undefined ? {} : message.params;
  const { id, method } = message;
  // A number beyond these is not the one that was sent any more, and an answer under another id answers nobody.
  if (id !== undefined && typeof id !== "string" && !(typeof id === "number" && Number.isSafeInteger(id))) {
    throw new McpProblem("An id is a string or a whole number from -(2^53 - 1) to 2^53 - 1.", {
      status: 400,
      rpcCode: RPC.invalidRequest,
    });
  }
  if (!isObject(params)) {
    throw new McpProblem("params must be an object.", {
      status: 400,
      rpcCode: RPC.invalidParams,
      ...(id === undefined ? {} : { id }),
    });
  }
  if (id === undefined) return { method, params };
  const meta = isObject(params._meta) ? params._meta : {};
  const request = {
    id,
    method,
    params,
    meta,
    modern: meta[META_VERSION] !== undefined || headers["mcp-protocol-version"] === MODERN_VERSION,
  };
  if (request.modern) checkModern(request, headers);
  else checkHandshake(request, headers);
  return request;
}

/** The param that `mcp-name` repeats. */
const NAMED_BY: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
};

/** What headers repeat of the body must agree with it; nothing is ever decided by a header. */
function checkModern(request: McpRequest, headers: IncomingHttpHeaders): void {
  const { id, method, params, meta } = request;
  const version = meta[META_VERSION];
  if (version === undefined) {
    throw new McpProblem(`params._meta must have ${META_VERSION}.`, { status: 400, rpcCode: RPC.invalidParams, id });
  }
  if (version !== MODERN_VERSION && headers["mcp-protocol-version"] === version) throw unsupported(id, version);
  const mirrored: readonly (readonly [string, unknown])[] = [
    ["mcp-protocol-version", version],
    ["mcp-method", method],
    ...(NAMED_BY[method] === undefined ? [] : [["mcp-name", params[NAMED_BY[method]]] as const]),
  ];
  for (const [name, value] of mirrored) {
    const header = headers[name];
    if (typeof header !== "string" || readHeaderValue(header) !== value) {
      throw new McpProblem(`Header mismatch: ${name} is missing or differs from the body.`, {
        status: 400,
        rpcCode: RPC.headerMismatch,
        id,
      });
    }
  }
}

function checkHandshake(request: McpRequest, headers: IncomingHttpHeaders): void {
  const version = headers["mcp-protocol-version"];
  if (version !== undefined && !HANDSHAKE_VERSIONS.includes(String(version))) throw unsupported(request.id, version);
}

function unsupported(id: RpcId, requested: unknown): McpProblem {
  return new McpProblem("Unsupported protocol version", {
    status: 400,
    rpcCode: RPC.unsupportedVersion,
    id,
    data: { supported: SUPPORTED_VERSIONS, requested: String(requested) },
  });
}
