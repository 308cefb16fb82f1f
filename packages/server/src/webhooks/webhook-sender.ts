/** Tells a receiver: signed as Standard Webhooks has it, by every secret that is valid now, and never follows it elsewhere. */
import { PlatformError } from "@signalbox/contract";
import type { AttemptResult, CancelSignal, DeliverySender, DueDelivery, Log } from "@signalbox/core";
import { Webhook } from "standardwebhooks";

/** Sends one request to an address that a tenant gave. */
export type SendRequest = (outgoing: {
  readonly url: string;
  readonly method: "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly timeoutMs: number;
  readonly bodyBytes: number;
  readonly signal: AbortSignal;
}) => Promise<{
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}>;

export interface WebhookSenderParts {
  readonly send: SendRequest;
  /** `null`: it was sealed by another key. */
  readonly openSecret: (sealed: Uint8Array, webhookId: string) => string | null;
  readonly nowMs: () => number;
  readonly timeoutMs: number;
  readonly responseBytes: number;
  readonly version: string;
  readonly log: Log;
}

export function createWebhookSender(parts: WebhookSenderParts): DeliverySender {
  return {
    async send(delivery, signal) {
      const secrets = delivery.secrets.map((sealed) => parts.openSecret(sealed, delivery.webhookId));
      const valid = secrets.filter((secret) => secret !== null);
      if (valid.length === 0) return failure("secret_unreadable");
      try {
        return await tell(parts, { delivery, secrets: valid, signal });
      } catch (thrown) {
        const code = signal.aborted ? "shutting_down" : codeOf(thrown);
        if (code === "connection_failed") {
          parts.log.warn("a webhook could not be told", { webhookId: delivery.webhookId, cause: String(thrown) });
        }
        return failure(code);
      }
    },
  };
}

async function tell(
  { send, nowMs, timeoutMs, responseBytes, version }: WebhookSenderParts,
  outgoing: { readonly delivery: DueDelivery; readonly secrets: readonly string[]; readonly signal: CancelSignal },
): Promise<AttemptResult> {
  const { delivery, secrets } = outgoing;
  const now = new Date(nowMs());
  const cut = new AbortController();
  const onAbort = (): void => cut.abort();
  if (outgoing.signal.aborted) onAbort();
  outgoing.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const answer = await send({
      url: delivery.url,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": `Signalbox/${version}`,
        "webhook-id": delivery.deliveryId,
        "webhook-timestamp": String(Math.floor(now.getTime() / 1_000)),
        "webhook-signature": secrets
          .map((secret) => new Webhook(secret).sign(delivery.deliveryId, now, delivery.payload))
          .join(" "),
      },
      body: delivery.payload,
      timeoutMs,
      bodyBytes: responseBytes,
      signal: cut.signal,
    });
    const retryAfterMs = retryAfterOf(answer.headers["retry-after"], now.getTime());
    return { status: answer.status, errorCode: null, response: answer.body, retryAfterMs };
  } finally {
    outgoing.signal.removeEventListener("abort", onAbort);
  }
}

/** Seconds, or a date. */
function retryAfterOf(header: string | string[] | undefined, nowMs: number): number | null {
  if (typeof header !== "string") return null;
  if (/^[0-9]{1,9}$/.test(header)) return Number(header) * 1_000;
  const atMs = Date.parse(header);
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
}

function failure(errorCode: string): AttemptResult {
  return { status: null, errorCode, response: null, retryAfterMs: null };
}

const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection_refused",
  ENOTFOUND: "name_not_found",
  EAI_AGAIN: "name_not_found",
};

/** The one place where errors of sockets become ours. */
function codeOf(thrown: unknown): string {
  if (thrown instanceof PlatformError) return thrown.code;
  if (!(thrown instanceof Error)) return "connection_failed";
  if (thrown.name === "AnswerTimeout") return "timeout";
  const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
  if (/^(ERR_TLS|ERR_SSL|CERT|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)) return "tls_failed";
  return CODES[code] ?? "connection_failed";
}
