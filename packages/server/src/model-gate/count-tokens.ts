/** Counting tokens: relayed under the same rules as a call, but nothing is written by a model and nothing is recorded. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { PlatformError } from "@signalbox/contract";
import { readBody } from "../gates/message-body.ts";
import { prepareCount, type Grant } from "./engine-request.ts";
import type { ModelCallPorts } from "./model-call.ts";
import { providerHeaders, providerUrl } from "./providers.ts";
import { providerError, sendError } from "./wire-error.ts";

export interface CountInput {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Of the engine's address, without the question mark. */
  readonly query: string;
  readonly bytes: Buffer;
  readonly grant: Grant;
  readonly ports: Pick<ModelCallPorts, "http" | "clock">;
}

const ANSWER_BYTES_MAX = 64 * 1024;
const ANSWER_MS = 30_000;

export async function relayCount({ request, response, query, bytes, grant, ports }: CountInput): Promise<void> {
  const { route, body } = prepareCount(bytes, grant);
  const stop = new AbortController();
  const onClose = (): void => stop.abort();
  const answered = new AbortController();
  response.on("close", onClose);
  const late = ports.clock
    .sleep(ANSWER_MS, answered.signal)
    .then((how) => (how === "elapsed" ? stop.abort() : undefined));
  try {
    const upstream = await ports.http.send({
      url: providerUrl(route.provider, "/v1/messages/count_tokens", query),
      method: "POST",
      headers: providerHeaders(request.headers, route),
      body,
      signal: stop.signal,
    });
    const answer = (await readBody(upstream, ANSWER_BYTES_MAX)).toString("utf8");
    if (upstream.statusCode === 200) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(answer);
    } else {
      const { statusCode: status = 502, headers } = upstream;
      const { apiKey } = route.provider;
      sendError(response, providerError({ status, headers, body: answer, nowMs: ports.clock.nowMs(), apiKey }));
    }
  } catch (cause) {
    throw new PlatformError("provider_unreachable", undefined, { cause });
  } finally {
    response.off("close", onClose);
    answered.abort();
    await late;
  }
}
