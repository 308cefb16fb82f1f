/**
 * The platform's own token for a tool server, by OAuth client credentials. It is asked for once and shared, asked for
 * again before it ends, and once more when the server does not take it. What a client of ours presents to us never
 * comes here.
 */
import type { Clock } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import { readBody } from "../gates/message-body.ts";
import { isObject } from "./mcp-protocol.ts";
import { NotAnswered } from "./rpc-wire.ts";

export interface ClientCredentials {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope?: string | undefined;
  /** The server the token is for, where the issuer wants it named (RFC 8707). */
  readonly resource?: string | undefined;
}

interface Token {
  readonly text: string;
  readonly untilMs: number;
}

const ANSWER_BYTES_MAX = 256 * 1024;
const ASK_MS = 10_000;
/** Asked for again this long before it ends. */
const EARLY_MS = 30_000;
const UNSAID_LIFE_MS = 300_000;

export class UpstreamAuth {
  readonly #credentials: ClientCredentials;
  readonly #http: HttpClient;
  readonly #clock: Clock;
  #token: Promise<Token> | null = null;
  #known: Token | null = null;

  constructor(credentials: ClientCredentials, ports: { readonly http: HttpClient; readonly clock: Clock }) {
    this.#credentials = credentials;
    this.#http = ports.http;
    this.#clock = ports.clock;
  }

  /** Rejects with `NotAnswered`: nothing was sent to the tool server. */
  async token(): Promise<string> {
    if (this.#known !== null && this.#known.untilMs - EARLY_MS <= this.#clock.monotonicMs()) this.#token = null;
    return (await this.#asked()).text;
  }

  /** After the server refused `refused`: another one, asked for once however many callers were refused. */
  async renewed(refused: string): Promise<string> {
    if (this.#known?.text === refused) this.#token = null;
    return (await this.#asked()).text;
  }

  /** What must not be shown to anybody. */
  secrets(): readonly string[] {
    return [this.#credentials.clientSecret, ...(this.#known === null ? [] : [this.#known.text])];
  }

  async #asked(): Promise<Token> {
    if (this.#token === null) {
      this.#known = null;
      this.#token = this.#ask();
    }
    const asked = this.#token;
    try {
      const token = await asked;
      this.#known = token;
      return token;
    } catch (cause) {
      if (this.#token === asked) this.#token = null;
      const detail = "The tool server's issuer gave no token.";
      throw new NotAnswered("tool_upstream_failed", { sent: false, detail, cause });
    }
  }

  async #ask(): Promise<Token> {
    const { tokenUrl, clientId, clientSecret, scope, resource } = this.#credentials;
    const form = new URLSearchParams({ grant_type: "client_credentials" });
    if (scope !== undefined) form.set("scope", scope);
    if (resource !== undefined) form.set("resource", resource);
    const basic = Buffer.from(`${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`).toString("base64");
    const askedAtMs = this.#clock.monotonicMs();
    const head = await this.#http.send({
      url: new URL(tokenUrl),
      method: "POST",
      headers: {
        accept: "application/json",
        authorization: `Basic ${basic}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: form.toString(),
      signal: AbortSignal.timeout(ASK_MS),
    });
    const answer: unknown = JSON.parse((await readBody(head, ANSWER_BYTES_MAX)).toString("utf8"));
    if (head.statusCode !== 200 || !isObject(answer) || typeof answer.access_token !== "string") {
      throw new Error(`the issuer answered ${head.statusCode ?? 0}`);
    }
    const lifeMs = typeof answer.expires_in === "number" ? answer.expires_in * 1_000 : UNSAID_LIFE_MS;
    return { text: answer.access_token, untilMs: askedAtMs + lifeMs };
  }
}
