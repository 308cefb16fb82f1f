/** What is owed to webhooks, for whoever delivers it. */
import type { DeliveryRecord, DueDelivery } from "@signalbox/core";
import { askRecord, readRows, type Queryable } from "../../store/record-call.ts";
import { BEGIN_DELIVERIES, HAS_WEBHOOKS, SETTLE_DELIVERY } from "../../store/statements/webhook-statements.ts";

export interface DeliveryRecordParts {
  /** Connects as `signalbox_run`. */
  readonly database: Queryable;
  /** Names the key that this process can open secrets with; webhooks of another one are left to others. */
  readonly keyId: string;
  readonly failingMs: number;
}

interface DueRow extends Omit<DueDelivery, "secrets"> {
  readonly secret: Buffer;
  readonly previousSecret: Buffer | null;
}

export function createDeliveryRecord({ database, keyId, failingMs }: DeliveryRecordParts): DeliveryRecord {
  return {
    async begin({ busy, limit, each, patienceMs }) {
      const rows = await readRows<DueRow>(database, BEGIN_DELIVERIES, [keyId, busy, limit, each, patienceMs]);
      const due = rows.map(({ secret, previousSecret, ...delivery }) => ({
        ...delivery,
        secrets: previousSecret === null ? [secret] : [secret, previousSecret],
      }));
      return { due, wanted: due.length > 0 || (await askRecord<boolean>(database, HAS_WEBHOOKS, [])) };
    },
    async settle(attempt) {
      const { deliveryId, number, verdict, durationMs, status, errorCode, response, retryMs } = attempt;
      const values = [deliveryId, number, verdict, durationMs, status, errorCode, response, retryMs, failingMs];
      await askRecord<boolean>(database, SETTLE_DELIVERY, values);
    },
  };
}
