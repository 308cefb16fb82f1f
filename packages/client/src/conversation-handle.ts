/** One conversation: send messages, read its history, follow its events. */
import {
  acceptedMessageSchema,
  conversationSchema,
  messagePageSchema,
  type AcceptedMessage,
  type Conversation,
  type Message,
  type PlatformEvent,
  type UpdateConversation,
  type WhenBusy,
} from "@signalbox/contract";
import { conversationEvents, type EventStreamOptions } from "./event-stream.ts";
import { cursorOf, RunHandle } from "./run-handle.ts";
import type { Transport } from "./transport.ts";

/** How a message is sent. */
export interface SendOptions {
  /** Sending again with the same key gives the same run. Default: a fresh key, so that retries are safe. */
  readonly idempotencyKey?: string;
  /** What happens when a run is active. Default: the agent's, `enqueue`. */
  readonly whenBusy?: WhenBusy;
  /** The product's own labels: at most 16. Default: none. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Gives up waiting for the acknowledgement; the message may have been accepted all the same. */
  readonly signal?: AbortSignal;
}

/** A run that was just accepted, with what the acknowledgement said. */
export interface AcceptedRun {
  readonly run: RunHandle;
  readonly accepted: AcceptedMessage;
}

/** One conversation by its id. Nothing is sent until a method is called; every method can end in `not_found`. */
export class ConversationHandle {
  readonly id: string;
  readonly #transport: Transport;

  constructor(transport: Transport, id: string) {
    this.#transport = transport;
    this.id = id;
  }

  /**
   * Sends a message and resolves once it is accepted, which is before it is answered. Errors: `conversation_busy`,
   * `conversation_deleting`, `agent_disabled`, `operator_stopped`, `queue_full`, `message_rate_exceeded`,
   * `too_many_runs`, `idempotency_key_reused`, `field_not_supported`, `payload_too_large`.
   */
  async send(content: string, options: SendOptions = {}): Promise<RunHandle> {
    return (await this.sendDetailed(content, options)).run;
  }

  /** Like `send`, with the whole acknowledgement. */
  async sendDetailed(content: string, options: SendOptions = {}): Promise<AcceptedRun> {
    const accepted = await this.#transport.json(
      {
        method: "POST",
        path: `${this.#path}/messages`,
        body: {
          content,
          ...(options.whenBusy === undefined ? {} : { whenBusy: options.whenBusy }),
          ...(options.metadata === undefined ? {} : { metadata: options.metadata }),
        },
        idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(),
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      },
      (body) => acceptedMessageSchema.parse(body),
    );
    const after = cursorOf(accepted.eventsUrl, this.#transport);
    return { run: new RunHandle(this.#transport, { id: accepted.run.id, conversationId: this.id, after }), accepted };
  }

  /** Follows the conversation; reconnects by itself. Errors: `invalid_cursor`. */
  events(options: EventStreamOptions = {}): AsyncGenerator<PlatformEvent, void, undefined> {
    return conversationEvents(this.#transport, this.id, options);
  }

  /** The conversation as it stands. */
  get(): Promise<Conversation> {
    return this.#transport.json({ method: "GET", path: this.#path }, (body) => conversationSchema.parse(body));
  }

  /**
   * Changes what is given: title, labels (as a whole), whether it is archived. Errors: `conversation_deleting`.
   */
  update(change: UpdateConversation): Promise<Conversation> {
    return this.#transport.json({ method: "PATCH", path: this.#path, body: change, repeatable: true }, (body) =>
      conversationSchema.parse(body),
    );
  }

  /**
   * A new conversation that begins with the history of this one, up to and with a message; without `messageId` with
   * everything that is finished. Errors: `not_found` (also for the message).
   */
  async fork(
    options: { readonly messageId?: string; readonly idempotencyKey?: string } = {},
  ): Promise<ConversationHandle> {
    const { idempotencyKey = crypto.randomUUID(), ...body } = options;
    const forked = await this.#transport.json(
      { method: "POST", path: `${this.#path}/fork`, body, idempotencyKey },
      (answer) => conversationSchema.parse(answer),
    );
    return new ConversationHandle(this.#transport, forked.id);
  }

  /**
   * Cancels what is active and what waits, and then removes the conversation. `deleted`: it is gone. `deleting`: it will
   * be, once its last run and call have ended. Asking again is safe.
   */
  async delete(): Promise<"deleted" | "deleting"> {
    const response = await this.#transport.once({ method: "DELETE", path: this.#path });
    await response.body?.cancel();
    return response.status === 204 ? "deleted" : "deleting";
  }

  /** The history, oldest first, page by page. */
  async *messages(): AsyncGenerator<Message, void, undefined> {
    let cursor: string | null = null;
    do {
      const query = new URLSearchParams({ order: "asc", limit: "200", ...(cursor === null ? {} : { cursor }) });
      const page: { readonly data: readonly Message[]; readonly nextCursor: string | null } =
        await this.#transport.json({ method: "GET", path: `${this.#path}/messages?${query}` }, (body) =>
          messagePageSchema.parse(body),
        );
      yield* page.data;
      cursor = page.nextCursor;
    } while (cursor !== null);
  }

  get #path(): string {
    return `/v1/conversations/${encodeURIComponent(this.id)}`;
  }
}
