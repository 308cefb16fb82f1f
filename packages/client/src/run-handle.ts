/** One run: follow it, wait for its result, cancel it. */
import {
  runSchema,
  type EndReason,
  type ErrorObject,
  type PlatformEvent,
  type Run,
  type TerminalState,
} from "@signalbox/contract";
import { conversationEvents, type EventStreamOptions } from "./event-stream.ts";
import type { Transport } from "./transport.ts";

/** How a run ended. */
export interface RunResult {
  readonly outcome: TerminalState;
  readonly reason: EndReason;
  /** The answer, or what there was of it. */
  readonly text: string;
  /** Why it failed, or `null` when it did not. */
  readonly error: (Pick<ErrorObject, "detail" | "fault" | "retryable"> & { readonly code: string }) | null;
  /** Integer micro-USD, or `null` when the price of the model is not known. */
  readonly costMicros: number | null;
}

/** Where the stream at this address begins. */
export function cursorOf(eventsUrl: string, transport: Transport): number {
  return Number(new URL(eventsUrl, transport.options.url).searchParams.get("after") ?? "0");
}

/** One run. Every method can end in `not_found`. */
export class RunHandle {
  readonly id: string;
  readonly conversationId: string;
  readonly #transport: Transport;
  readonly #after: number;

  constructor(
    transport: Transport,
    run: { readonly id: string; readonly conversationId: string; readonly after: number },
  ) {
    this.id = run.id;
    this.conversationId = run.conversationId;
    this.#transport = transport;
    this.#after = run.after;
  }

  /** The run's events from its first one; ends after `run.finished`. Reconnects by itself. */
  async *events(
    options: Omit<EventStreamOptions, "after" | "follow"> = {},
  ): AsyncGenerator<PlatformEvent, void, undefined> {
    for await (const event of conversationEvents(this.#transport, this.conversationId, {
      ...options,
      after: this.#after,
    })) {
      if (event.runId !== this.id) continue;
      yield event;
      if (event.type === "run.finished") return;
    }
  }

  /** Waits for the end of the run. A failed run is a result, not an exception. */
  async result(options: Omit<EventStreamOptions, "after" | "follow"> = {}): Promise<RunResult> {
    const texts = new Map<string, string>();
    for await (const event of this.events(options)) {
      if (event.type === "text.completed") texts.set(event.itemId, event.text);
      if (event.type === "text.retracted") texts.delete(event.itemId);
      if (event.type !== "run.finished") continue;
      const run = await this.get();
      return {
        outcome: event.outcome,
        reason: event.reason,
        text: [...texts.values()].at(-1) ?? "",
        error: event.error,
        costMicros: run.costMicros,
      };
    }
    throw new Error("the event stream of a run ends only after run.finished");
  }

  /** The run as it stands. */
  get(): Promise<Run> {
    return getRun(this.#transport, this.id);
  }

  /**
   * Asks for the end of the run. Idempotent; a run that has ended stays as it is, and so does one whose end is being
   * decided already or whose message another run has taken in: such a run shows no `cancelRequestedAt`.
   */
  cancel(): Promise<Run> {
    return cancelRun(this.#transport, this.id);
  }
}

export function getRun(transport: Transport, id: string): Promise<Run> {
  return transport.json({ method: "GET", path: `/v1/runs/${encodeURIComponent(id)}` }, (body) => runSchema.parse(body));
}

export function cancelRun(transport: Transport, id: string): Promise<Run> {
  const path = `/v1/runs/${encodeURIComponent(id)}/cancel`;
  return transport.json({ method: "POST", path, repeatable: true }, (body) => runSchema.parse(body));
}
