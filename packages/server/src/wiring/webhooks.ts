/** Delivers to webhooks, on the server's side: the guarded way out, sealed secrets, and the bells that make it prompt. */
import { createDeliveries, LIMITS, type DeliveryRecord, type Log } from "@signalbox/core";
import { EgressPolicy, type EgressAllowance } from "../egress/egress-policy.ts";
import { guardedSender } from "../egress/guarded-request.ts";
import { systemCancellation, systemClock, systemRandomness } from "../system/ports.ts";
import type { Sealer } from "../tenancy/sealer.ts";
import { VERSION } from "../version.ts";
import { createWebhookSender } from "../webhooks/webhook-sender.ts";

export interface WebhookParts {
  readonly deliveries: DeliveryRecord;
  readonly sealer: Sealer;
  readonly egressAllow: EgressAllowance;
  /** Calls back whenever some log grew. Answers how to stop that. */
  readonly onRung: (listener: () => void) => () => void;
  readonly log: Log;
}

export function startDeliveries({ deliveries, sealer, egressAllow, onRung, log }: WebhookParts): AsyncDisposable {
  const sender = createWebhookSender({
    send: guardedSender({ policy: new EgressPolicy(egressAllow) }),
    openSecret: (sealed, webhookId) => sealer.open(sealed, webhookId),
    nowMs: () => systemClock.nowMs(),
    timeoutMs: LIMITS.deliveryTimeoutMs,
    responseBytes: LIMITS.deliveryResponseBytes,
    version: VERSION,
    log,
  });
  const ports = { clock: systemClock, cancellation: systemCancellation, randomness: systemRandomness, log };
  const running = createDeliveries({ ...ports, record: deliveries, sender });
  running.start();
  const deafen = onRung(() => running.nudge());
  return {
    async [Symbol.asyncDispose]() {
      deafen();
      await running[Symbol.asyncDispose]();
    },
  };
}
