/** Which provider serves a model name, and the head of a request to it. The provider's key is added here and only here. */
import type { IncomingHttpHeaders } from "node:http";
import { PlatformError } from "@signalbox/contract";

export interface Provider {
  readonly name: string;
  /** Without a slash at its end; `/v1/messages` is appended. */
  readonly baseUrl: string;
  readonly wire: "anthropic";
  readonly apiKey: string | null;
  /** True for `sim`, whose calls cost nothing. */
  readonly simulated: boolean;
}

export interface Route {
  readonly provider: Provider;
  /** The provider's own name of the model. */
  readonly upstreamModel: string;
}

/** Splits `provider/model`. Rejects with `model_unknown` when no such provider is configured. */
export function routeModel(model: string, providers: readonly Provider[]): Route {
  const slash = model.indexOf("/");
  const provider = providers.find((each) => each.name === model.slice(0, Math.max(slash, 0)));
  if (provider === undefined || slash === model.length - 1) {
    throw new PlatformError("model_unknown", "No provider is configured for the model of this run.");
  }
  return { provider, upstreamModel: model.slice(slash + 1) };
}

/** Headers of an engine that may pass; everything else, its credential above all, stays here. */
const PASSED: readonly string[] = ["anthropic-version", "anthropic-beta"];
const WIRE_VERSION = "2023-06-01";

export function providerHeaders(engine: IncomingHttpHeaders, route: Route): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {
    accept: "text/event-stream, application/json",
    "accept-encoding": "identity",
    "anthropic-version": WIRE_VERSION,
    "content-type": "application/json",
    "user-agent": "signalbox",
  };
  for (const name of PASSED) {
    const value = engine[name];
    if (typeof value === "string") headers[name] = value;
  }
  if (route.provider.apiKey !== null) headers["x-api-key"] = route.provider.apiKey;
  return headers;
}

const urls = new Map<string, URL>();

/** `beta` is the one query parameter of the wire. There are as many addresses as providers and paths, so all are kept. */
export function providerUrl(
  provider: Provider,
  path: "/v1/messages" | "/v1/messages/count_tokens",
  query: string,
): URL {
  const text = `${provider.baseUrl}${path}${/(^|&)beta=true(&|$)/.test(query) ? "?beta=true" : ""}`;
  let url = urls.get(text);
  if (url === undefined) {
    url = new URL(text);
    urls.set(text, url);
  }
  return url;
}
