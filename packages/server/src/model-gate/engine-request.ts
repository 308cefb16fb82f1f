/**
 * Judges and prepares what an engine asks a model. The body goes out as it came, except where a rule fires; the intent
 * records the rules by name:
 *
 * - `model_prefix`: the provider's own name of the model replaces ours.
 * - `max_tokens_lowered`: no call may write more than the snapshot's `maxOutputTokens`.
 * - `tools_withheld`: tools that would be refused now (they drifted since the agent was made) are not offered.
 * - `text_well_formed`: lone surrogates and NUL are replaced, which no provider takes and no record keeps.
 */
import { isUtf8 } from "node:buffer";
import { PlatformError, wellFormedJson, type Snapshot } from "@signalbox/contract";
import { judgeModelCall, wireToolName } from "@signalbox/core";
import { routeModel, type Provider, type Route } from "./providers.ts";

export interface PreparedRequest {
  readonly route: Route;
  readonly requestedModel: string;
  readonly body: string;
  readonly stream: boolean;
  readonly rules: readonly string[];
}

export interface Grant {
  readonly snapshot: Snapshot;
  readonly providers: readonly Provider[];
  /** Names of the snapshot's tools that are not offered now. */
  readonly withheldTools: ReadonlySet<string>;
}

type Body = Readonly<Record<string, unknown>>;

/** Only these escapes can bring a character into parsed JSON that must not leave again. */
const SUSPECT_ESCAPE = /\\u(?:d[89a-f]|0000)/i;

/** A model call. Errors: `invalid_request` and its kin, `model_not_granted`, `model_unknown`, `tool_not_allowed`. */
export function prepareMessage(bytes: Buffer, grant: Grant): PreparedRequest {
  const prepared = prepareCount(bytes, grant);
  const parsed = prepared.parsed;
  const maxTokens = parsed.max_tokens;
  if (!Number.isSafeInteger(maxTokens) || Number(maxTokens) < 1) {
    throw invalid("max_tokens: must be a whole number of at least 1");
  }
  if (parsed.stream !== undefined && typeof parsed.stream !== "boolean") throw invalid("stream: must be true or false");
  const limit = grant.snapshot.maxOutputTokens;
  const lowered = Number(maxTokens) > limit;
  return {
    route: prepared.route,
    requestedModel: prepared.requestedModel,
    body: lowered ? written({ ...parsed, max_tokens: limit }) : prepared.body,
    stream: parsed.stream === true,
    rules: lowered ? [...prepared.rules, "max_tokens_lowered"] : prepared.rules,
  };
}

/** A count of tokens: the same rules, but nothing is written by a model. */
export function prepareCount(bytes: Buffer, grant: Grant): Omit<PreparedRequest, "stream"> & { readonly parsed: Body } {
  const { body, wasWellFormed } = readBodyObject(bytes);
  if (typeof body.model !== "string") throw invalid("model: must be a string");
  if (!Array.isArray(body.messages) || body.messages.length === 0) {
    throw invalid("messages: must be a list that is not empty");
  }
  const verdict = judgeModelCall(grant.snapshot, body.model);
  if (verdict.kind !== "allow") {
    throw new PlatformError(verdict.kind === "deny" ? verdict.code : "model_not_granted", verdict.reason);
  }
  refuseForeignTools(body);
  const route = routeModel(body.model, grant.providers);
  const offered = withoutWithheld(body, grant.withheldTools);
  const parsed: Body = { ...offered, model: route.upstreamModel };
  return {
    route,
    requestedModel: body.model,
    body: written(parsed),
    parsed,
    rules: [
      "model_prefix",
      ...(offered === body ? [] : ["tools_withheld"]),
      ...(wasWellFormed ? [] : ["text_well_formed"]),
    ],
  };
}

function readBodyObject(bytes: Buffer): { readonly body: Body; readonly wasWellFormed: boolean } {
  if (!isUtf8(bytes)) throw new PlatformError("invalid_encoding");
  const text = bytes.toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new PlatformError("malformed_json", undefined, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid("the body must be an object");
  const clean = SUSPECT_ESCAPE.test(text) ? nested(() => wellFormedJson(value)) : value;
  // An object by the check above.
  return { body: clean as Body, wasWellFormed: clean === value };
}

function written(body: Body): string {
  return nested(() => JSON.stringify(body));
}

/** Walking a body that is nested deeper than the stack fails; parsing it does not. */
function nested<T>(walk: () => T): T {
  try {
    return walk();
  } catch (cause) {
    throw new PlatformError("invalid_request", "The body is nested too deeply.", { cause });
  }
}

/**
 * Tools that the provider itself would run, and tool servers it would call, act on the world past the tool gate: they
 * are refused until a gate judges them.
 */
function refuseForeignTools(body: Body): void {
  if (Array.isArray(body.mcp_servers) && body.mcp_servers.length > 0) {
    throw new PlatformError("tool_not_allowed", "Tool servers are reached through the tool gate, not by the provider.");
  }
  const tools: readonly unknown[] = Array.isArray(body.tools) ? body.tools : [];
  for (const tool of tools) {
    if (typeof tool === "object" && tool !== null && "type" in tool && tool.type !== "custom" && tool.type !== null) {
      throw new PlatformError("tool_not_allowed", "Tools that a provider runs itself are not allowed.");
    }
  }
}

/** A session keeps the tools it began with; this is what makes them those of today, on every engine. */
function withoutWithheld(body: Body, withheld: ReadonlySet<string>): Body {
  if (withheld.size === 0 || !Array.isArray(body.tools)) return body;
  const isOffered = (tool: unknown): boolean => !withheld.has(wireToolName(nameOf(tool)));
  const tools = body.tools.filter(isOffered);
  if (tools.length === body.tools.length) return body;
  const { tools: _all, tool_choice: choice, ...rest } = body;
  return {
    ...rest,
    ...(tools.length === 0 ? {} : { tools }),
    // Without tools there is nothing to choose, and nobody may be made to choose one that is gone.
    ...(tools.length === 0 || choice === undefined || !isOffered(choice) ? {} : { tool_choice: choice }),
  };
}

function nameOf(tool: unknown): string {
  return typeof tool === "object" && tool !== null && "name" in tool ? String(tool.name) : "";
}

function invalid(detail: string): PlatformError {
  return new PlatformError("invalid_request", detail);
}
