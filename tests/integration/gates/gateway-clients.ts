/** Clients of the gateway: the official ones of both eras, and requests written by hand. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { MODERN, type RpcAnswer } from "./tool-fixture.ts";

export type Era = "modern" | "handshake";

const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

export interface AskOptions {
  readonly era?: Era;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly id?: number | string;
}

export interface GatewayClient {
  /** One message over a connection of its own. */
  ask(method: string, options?: AskOptions): Promise<RpcAnswer>;
  call(name: string, input?: Readonly<Record<string, unknown>>, options?: AskOptions): Promise<RpcAnswer>;
  /** The answer as it streams. */
  stream(method: string, options?: AskOptions): Promise<Response>;
}

/** `url` is a whole address; several are asked in turn. */
export function clientOf(key: string, ...urls: readonly string[]): GatewayClient {
  let next = 0;
  const stream = (method: string, options: AskOptions = {}): Promise<Response> => {
    const { era = "modern", params = {}, meta = {}, headers = {}, signal, id = 1 } = options;
    const modern = era === "modern";
    const named = typeof params.name === "string" ? params.name : params.uri;
    const url = urls[next % urls.length] ?? "";
    next += 1;
    return fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        connection: "close",
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(modern
          ? { "mcp-protocol-version": MODERN, "mcp-method": method }
          : { "mcp-protocol-version": "2025-11-25" }),
        ...(modern && typeof named === "string" ? { "mcp-name": named } : {}),
        ...headers,
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        ...(method.startsWith("notifications/") ? {} : { id }),
        method,
        params: { ...params, ...(modern ? { _meta: { ...META, ...meta } } : { _meta: meta }) },
      }),
      ...(signal === undefined ? {} : { signal }),
    });
  };
  const ask: GatewayClient["ask"] = async (method, options) => {
    const response = await stream(method, options);
    const body = await response.text();
    const streamed = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const json = streamed ? ([...body.matchAll(/^data: (.*)$/gm)].at(-1)?.[1] ?? "") : body;
    const message = json === "" ? {} : JSON.parse(json);
    return { status: response.status, headers: response.headers, body, message };
  };
  return {
    stream,
    ask,
    call: (name, input = {}, options = {}) =>
      ask("tools/call", { ...options, params: { name, arguments: input, ...options.params } }),
  };
}

/** The official client of both eras, made to speak one, connected. */
export async function officialClient(
  era: Era,
  options: { readonly url: string; readonly key: string; readonly elicits?: boolean },
): Promise<Client> {
  const mode = era === "modern" ? "auto" : "legacy";
  const capabilities = options.elicits === true ? { elicitation: { form: {} } } : {};
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode }, capabilities });
  if (options.elicits === true) {
    client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: {} }));
  }
  const requestInit = { headers: { authorization: `Bearer ${options.key}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(options.url), { requestInit }));
  return client;
}
