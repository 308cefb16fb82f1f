/** One request of a client, identified, and what is known of it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpNotification, McpRequest, McpResponse } from "../mcp-request.ts";
import type { GatewayCaller } from "./gateway-caller.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly caller: GatewayCaller;
  readonly principal: string;
  /** `servers/docs` or `units/default`. */
  readonly endpoint: string;
  /** The body as it came. Empty where there is none. */
  readonly text: string;
}

export type ClientMessage = McpRequest | McpNotification | McpResponse;

/** Aborted when the client's connection is gone before it was answered. */
export function goneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) gone.abort("gone");
  });
  return gone.signal;
}
