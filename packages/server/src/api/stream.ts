/** Writes an event feed as SSE. A POST stream ends after its run's `run.finished`; a GET stream follows. */
import { PlatformError, type ErrorCode } from "@signalbox/contract";
import type { LiveSubscription } from "@signalbox/core";
import { eventFeed } from "./event-feed.ts";
import type { RouteCall } from "./route.ts";
import type { StoredEvent } from "./api-record.ts";
import type { ApiServices } from "./services.ts";
import { SseResponse } from "./sse-response.ts";

export interface StreamOptions {
  readonly conversationId: string;
  readonly after: number;
  readonly follow: boolean;
  readonly untilRun: string | null;
  /** A subscription from before `known` was written, with what was written; otherwise both are found out here. */
  readonly begun?: { readonly subscription: LiveSubscription; readonly known: readonly StoredEvent[] | null };
  readonly headers?: Readonly<Record<string, string>>;
}

export async function streamEvents(
  services: ApiServices,
  call: RouteCall<unknown, unknown>,
  options: StreamOptions,
): Promise<void> {
  // Subscribed before the first read of the record: what is committed in between rings.
  using subscription = options.begun?.subscription ?? services.subscribe(options.conversationId);
  const sent = call.reply.getHeaders();
  call.reply.hijack();
  using response = new SseResponse(call.reply.raw, {
    headers: { ...stringHeaders(sent), ...options.headers },
    slowReaderMs: services.slowReaderMs,
  });
  const stop = AbortSignal.any([response.gone, services.stopping]);
  const close = (): void => subscription.close();
  if (stop.aborted) close();
  stop.addEventListener("abort", close, { once: true });
  const feed = eventFeed({
    record: services.record,
    scope: call.caller.scope,
    conversationId: options.conversationId,
    after: options.after,
    known: options.begun?.known ?? null,
    follow: options.follow,
    subscription,
    nowMs: () => Date.now(),
  });
  try {
    for await (const frame of feed) {
      if (options.untilRun !== null && frame.runId !== options.untilRun) continue;
      await response.send(frame);
      if (options.untilRun !== null && frame.type === "run.finished") return;
      if (stop.aborted) break;
    }
    if (services.stopping.aborted) response.close("server_stopping");
  } catch (thrown) {
    const reason = thrown instanceof PlatformError ? EXPECTED[thrown.code] : undefined;
    if (reason !== undefined) {
      response.close(reason);
      return;
    }
    services.log.error("an event stream ended early", thrown, {
      conversation: options.conversationId,
      request: call.requestId,
    });
    response.close("internal");
  }
}

/** Ends that nobody needs to hear of but the reader. */
const EXPECTED: { readonly [Code in ErrorCode]?: string } = {
  cursor_expired: "cursor_expired",
  not_found: "conversation_deleted",
};

/** Headers that were set before the response was taken over. */
export function stringHeaders(
  headers: ReturnType<RouteCall<unknown, unknown>["reply"]["getHeaders"]>,
): Readonly<Record<string, string>> {
  const strings: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) strings[name] = String(value);
  return strings;
}
