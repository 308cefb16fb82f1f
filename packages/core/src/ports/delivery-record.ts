/** What is owed to webhooks, and what an attempt to deliver it came to. */
import type { CancelSignal } from "./clock.ts";

export interface DueDelivery {
  readonly deliveryId: string;
  readonly webhookId: string;
  /** Of this attempt. */
  readonly number: number;
  /** The same, counted from when the delivery was asked for last: 1 for the first. */
  readonly effort: number;
  readonly url: string;
  /** Sealed; the newest first. */
  readonly secrets: readonly Uint8Array[];
  readonly payload: string;
}

export interface DueQuery {
  /** Webhooks that this process is busy with. */
  readonly busy: readonly string[];
  readonly limit: number;
  /** Attempts that one webhook gets at once. */
  readonly each: number;
  /** From then on an attempt that was not noted is given up. */
  readonly patienceMs: number;
}

export interface AttemptResult {
  /** Of the answer; `null` when there was none. */
  readonly status: number | null;
  /** Why there was none; `null` when there was. */
  readonly errorCode: string | null;
  /** How the answer began. */
  readonly response: string | null;
  /** How long the receiver asked to be left alone. */
  readonly retryAfterMs: number | null;
}

/** `interrupted`: this process is about to end, and the attempt does not count. `gone`: nothing is wanted any more. */
export type DeliveryVerdict = "delivered" | "failed" | "gone" | "interrupted";

export interface SettledAttempt {
  readonly deliveryId: string;
  readonly number: number;
  readonly verdict: DeliveryVerdict;
  readonly durationMs: number;
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly response: string | null;
  /** When it is tried again; `null`: never. */
  readonly retryMs: number | null;
}

export interface DeliveryRecord {
  /** Notes attempts that are to be made now. `wanted`: somebody wants to be told of something, now or later. */
  begin(query: DueQuery): Promise<{ readonly due: readonly DueDelivery[]; readonly wanted: boolean }>;
  settle(attempt: SettledAttempt): Promise<void>;
}

export interface DeliverySender {
  /** Tells a receiver, and never rejects. */
  send(delivery: DueDelivery, signal: CancelSignal): Promise<AttemptResult>;
}
