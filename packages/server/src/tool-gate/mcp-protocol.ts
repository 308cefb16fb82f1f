/** Words of MCP that both sides of the tool gate use: towards engines and towards tool servers. */
export const MODERN_VERSION = "2026-07-28";
/** Revisions with a handshake, newest first. */
export const HANDSHAKE_VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26"];
export const SUPPORTED_VERSIONS: readonly string[] = [MODERN_VERSION, ...HANDSHAKE_VERSIONS];

export const META_VERSION = "io.modelcontextprotocol/protocolVersion";
export const META_CLIENT = "io.modelcontextprotocol/clientInfo";
export const META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
export const META_SERVER = "io.modelcontextprotocol/serverInfo";
export const META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";

export const IMPLEMENTATION = { name: "signalbox", title: "Signalbox", version: "0.1.0" } as const;

/** Error codes of JSON-RPC and of MCP's own range. Ours are HTTP statuses, outside of both. */
export const RPC = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internalError: -32_603,
  headerMismatch: -32_020,
  missingCapability: -32_021,
  unsupportedVersion: -32_022,
} as const;

export type Json = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value as an HTTP header may carry it: plain when it can, otherwise in MCP's Base64 form. */
export function headerValue(text: string): string {
  const plain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text);
  return plain ? text : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}

export function readHeaderValue(header: string): string {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(header)?.[1];
  return encoded === undefined ? header : Buffer.from(encoded, "base64").toString("utf8");
}
