/** The ways a call takes: of a run, or of a client of the gateway; in either revision of the protocol; or to its server alone. */
import { request, type Agent } from "node:http";
import type { GateProcess } from "../gates/gate-process.ts";

export interface Way {
  readonly id: string;
  readonly says: string;
  /** Whether the model has to propose the call first. */
  readonly isProposed: boolean;
  readonly name: string;
  readonly isModern: boolean;
  readonly path: string;
  readonly key: "token" | "key";
}

export const INPUT = { text: "the arguments of an ordinary call" };
const MODERN = "2026-07-28";
const OLDER = "2025-11-25";
const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

const RUN = { isProposed: true, path: "/mcp/units/default", key: "token", isModern: true } as const;
const CLIENT = { isProposed: false, path: "/mcp/servers/http", key: "key", name: "echo" } as const;

export const WAYS: readonly Way[] = [
  { ...RUN, id: "http", name: "http__echo", says: "of a run, over HTTP" },
  { ...RUN, id: "http-older", name: "http__echo", isModern: false, says: `of a run, over HTTP, ${OLDER}` },
  { ...RUN, id: "stdio", name: "stdio__echo", says: "of a run, over a pipe" },
  { ...CLIENT, id: "client", isModern: true, says: "of a client, relayed" },
  { ...CLIENT, id: "client-older", isModern: false, says: `of a client, relayed, ${OLDER}` },
];

export function askOf(way: Way, { url, token, key }: Pick<GateProcess, "url" | "token" | "key">) {
  const { name, path, isModern } = way;
  const bearer = way.key === "token" ? token : key;
  return (agent: Agent, id: string): Promise<number> =>
    callOnce({ url: url + path, bearer, name, id, isModern, agent });
}

export interface OneCall {
  readonly url: string;
  readonly bearer: string;
  readonly name: string;
  readonly id: string | null;
  readonly isModern: boolean;
  readonly agent: Agent;
}

/** Resolves with how many milliseconds it took. */
export function callOnce({ url, bearer, name, id, isModern, agent }: OneCall): Promise<number> {
  const _meta = { ...(isModern ? META : {}), ...(id === null ? {} : { "claudecode/toolUseId": id }) };
  const params = { name, arguments: INPUT, _meta };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const headers = {
    authorization: `Bearer ${bearer}`,
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "mcp-protocol-version": isModern ? MODERN : OLDER,
    ...(isModern ? { "mcp-method": "tools/call", "mcp-name": name } : {}),
  };
  const startedAtMs = performance.now();
  return new Promise((resolve, reject) => {
    const asked = request(url, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (text += piece));
      response.on("end", () => {
        const answered = text.includes('"content"') && !text.includes('"isError":true');
        if (answered) resolve(performance.now() - startedAtMs);
        else reject(new Error(`the call ended with ${text.slice(0, 200)}`));
      });
    });
    asked.on("error", reject);
    asked.end(body);
  });
}
