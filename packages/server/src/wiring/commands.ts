/**
 * Commands on what exists, each by itself or in one transaction with its idempotency key. Bells ring and what follows
 * is carried out after the commit: nobody is told of what may still be undone.
 */
import { PlatformError } from "@signalbox/contract";
import { createCancel, createOperators, type LiveChannel, type Log, type OperatorRecord } from "@signalbox/core";
import type { CommandDesk, CommandRecord } from "../api/command.ts";
import type { Answer } from "../api/route.ts";
import { createCancelRecord } from "../channels/truth/admission-record.ts";
import { createOperatorRecord } from "../channels/truth/operator-record.ts";
import { OperatorQueries } from "../store/queries/operator-queries.ts";
import { recordOnce } from "../store/queries/once.ts";
import { RunQueries } from "../store/queries/run-queries.ts";
import type { Queryable } from "../store/record-call.ts";
import { within, type Tenants } from "../store/tenant-database.ts";
import { answerProblems } from "./answer-problems.ts";
import { runOf } from "./api-shapes.ts";
import { createOperatorView } from "./operator-view.ts";
import { editOf } from "./edited-call.ts";
import { present } from "./present.ts";
import { createWebhookDesk, type WebhookDeskParts } from "./webhook-desk.ts";

type Bells = Pick<LiveChannel, "ring" | "ringGates" | "ringSupervisors">;

export interface CommandParts {
  /** Connects as `signalbox_app`. */
  readonly requests: Queryable;
  readonly tenants: Tenants;
  /** Connects as `signalbox_run`. */
  readonly sweeps: Queryable;
  readonly live: Bells;
  readonly log: Log;
  readonly webhooks: Omit<WebhookDeskParts, "tenants">;
}

/** Where a desk reads and writes, and who hears of it. */
interface Place {
  readonly requests: Queryable;
  readonly tenants: Tenants;
  readonly record: OperatorRecord;
  readonly live: Bells;
  readonly webhooks: CommandParts["webhooks"];
}

export function createCommands(parts: CommandParts): CommandRecord {
  const record = createOperatorRecord(parts);
  const outside = createOperators({ record, live: parts.live });
  return {
    desk: deskAt({ ...parts, record }),
    async once({ tenantId }, once, act) {
      const later = new Afterwards(parts.live);
      let refusal: PlatformError | null = null;
      const answer = (value: Answer | null) => (value === null ? null : once.answer(value));
      const recorded = await parts.tenants.transaction(tenantId, (transaction) =>
        recordOnce<Answer | null>(transaction, { tenantId, once: { ...once, answer } }, async () => {
          try {
            const inside = within(transaction);
            const { live } = later;
            const inner = createOperatorRecord({ ...parts, requests: inside, live });
            const record = { ...inner, carryOut: async () => later.carryOut() };
            const { webhooks } = parts;
            return await act(deskAt({ requests: inside, tenants: inside, record, live, webhooks }));
          } catch (thrown) {
            if (!isRefusal(thrown)) throw thrown;
            refusal = thrown;
            return null;
          }
        }),
      );
      later.ring();
      if (later.isLeft) await outside.carryOut();
      if (recorded.kind === "replayed") return recorded;
      if (recorded.value === null) throw refusal ?? new PlatformError("internal");
      return { kind: "created", value: recorded.value };
    },
  };
}

function deskAt({ requests, tenants, record, live, webhooks }: Place): CommandDesk {
  const view = createOperatorView(new OperatorQueries(tenants));
  const runs = new RunQueries(tenants);
  return {
    ...createOperators({ record, live }),
    hold: (scope, id) => view.hold(scope, id),
    clientHold: (scope, id) => view.clientHold(scope, id),
    standing: (scope, id) => view.stop(scope, id),
    stops: (scope, query) => view.stops(scope, query),
    toolCall: (scope, id) => view.toolCall(scope, id),
    answerProblems,
    editOf: (scope, hold, given) => editOf({ tenants, runs }, { scope, hold, given }),
    cancel: createCancel({ record: createCancelRecord({ database: requests, live }), live }),
    webhooks: createWebhookDesk({ ...webhooks, tenants }),
    run: async (scope, id) => runOf(present(await runs.find(scope, id))),
  };
}

/** The record has decided that this is not to be; a database that failed has decided nothing. */
function isRefusal(thrown: unknown): thrown is PlatformError {
  return thrown instanceof PlatformError && (thrown.facts.fault === "caller" || thrown.facts.fault === "policy");
}

/** What is to be done once the transaction is over. */
class Afterwards {
  readonly live: Bells;
  readonly #rings: (() => void)[] = [];
  #isLeft = false;

  constructor(live: Bells) {
    const put = (ring: () => void): void => void this.#rings.push(ring);
    this.live = {
      ring: (conversationId, sequence) => put(() => live.ring(conversationId, sequence)),
      ringGates: (conversationId) => put(() => live.ringGates(conversationId)),
      ringSupervisors: () => put(() => live.ringSupervisors()),
    };
  }

  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Nothing of what is not committed can be carried out yet. */
  carryOut(): number {
    this.#isLeft = true;
    return 0;
  }

  ring(): void {
    for (const ring of this.#rings) ring();
  }
}
