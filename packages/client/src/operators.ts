/** Holds, pauses and stops, and what operators ask of runs. */
import {
  acceptedMessageSchema,
  decidedHoldSchema,
  explanationSchema,
  holdPageSchema,
  holdSchema,
  obligationListSchema,
  runSchema,
  stopPageSchema,
  stopSchema,
  type AcceptedMessage,
  type CreateStop,
  type DecidedHold,
  type DecideHold,
  type Explanation,
  type Hold,
  type HoldState,
  type Obligations,
  type Run,
  type Stop,
} from "@signalbox/contract";
import { queryOf, type ListOptions, type Page } from "./list.ts";
import type { Transport } from "./transport.ts";

/** What is to be paused or stopped; `id` is left out for the tenant. */
export type NewStop = Pick<CreateStop, "kind" | "scope"> & Partial<CreateStop>;

/** Which holds to list. */
export interface HoldFilter extends ListOptions {
  readonly conversation?: string;
  readonly run?: string;
  readonly state?: HoldState;
}

/** What runs wait for. Every method that names one can end in `not_found`. */
export class Holds {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(filter: HoldFilter = {}): Promise<Page<Hold>> {
    return this.#transport.json({ method: "GET", path: `/v1/holds${queryOf(filter)}` }, (body) =>
      holdPageSchema.parse(body),
    );
  }

  get(id: string): Promise<Hold> {
    return this.#transport.json({ method: "GET", path: `/v1/holds/${encodeURIComponent(id)}` }, (body) =>
      holdSchema.parse(body),
    );
  }

  /**
   * Decides a hold. The first decision stands and is the answer to every later one. Errors: `approval_changed`,
   * `hold_closed`, `command_refused`.
   */
  decide(id: string, decision: DecideHold): Promise<DecidedHold> {
    const path = `/v1/holds/${encodeURIComponent(id)}/decision`;
    return this.#transport.json({ method: "POST", path, body: decision, idempotencyKey: crypto.randomUUID() }, (body) =>
      decidedHoldSchema.parse(body),
    );
  }
}

/** Pauses and stops that stand. The key must have the right `operate`. */
export class StopList {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** One that stands already is answered as it is. Errors: `not_found` (nothing of that id). */
  create(stop: NewStop): Promise<Stop> {
    return this.#transport.json(
      { method: "POST", path: "/v1/stops", body: stop, idempotencyKey: crypto.randomUUID() },
      (body) => stopSchema.parse(body),
    );
  }

  list(options: ListOptions & { readonly standing?: boolean } = {}): Promise<Page<Stop>> {
    return this.#transport.json({ method: "GET", path: `/v1/stops${queryOf(options)}` }, (body) =>
      stopPageSchema.parse(body),
    );
  }

  /** Errors: `not_found`. */
  get(id: string): Promise<Stop> {
    return this.#transport.json({ method: "GET", path: `/v1/stops/${encodeURIComponent(id)}` }, (body) =>
      stopSchema.parse(body),
    );
  }

  /** Errors: `not_found`. */
  lift(id: string): Promise<Stop> {
    const path = `/v1/stops/${encodeURIComponent(id)}/lift`;
    return this.#transport.json({ method: "POST", path, idempotencyKey: crypto.randomUUID() }, (body) =>
      stopSchema.parse(body),
    );
  }
}

/**
 * Commands on one run. The key must have the right `operate`. Every method can end in `not_found`, and in
 * `command_refused` with a sentence when the command would not be safe.
 */
export class OperatedRuns {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  pause(id: string): Promise<Run> {
    return this.#command(id, "pause");
  }

  resume(id: string): Promise<Run> {
    return this.#command(id, "resume");
  }

  /** Takes the run away from its owner, so that another one claims it. */
  release(id: string): Promise<Run> {
    return this.#command(id, "release");
  }

  /** Ends a run that is stuck. */
  fail(id: string, options: { readonly force?: boolean } = {}): Promise<Run> {
    return this.#command(id, "fail", options);
  }

  /** Answers the message of a run that failed or was cancelled again. */
  retry(
    id: string,
    options: { readonly force?: boolean; readonly idempotencyKey?: string } = {},
  ): Promise<AcceptedMessage> {
    const { idempotencyKey = crypto.randomUUID(), ...body } = options;
    const path = pathOf(id, "retry");
    return this.#transport.json({ method: "POST", path, body, idempotencyKey }, (answer) =>
      acceptedMessageSchema.parse(answer),
    );
  }

  /** Why the run does not move, and what happens next. */
  explain(id: string): Promise<Explanation> {
    return this.#transport.json({ method: "GET", path: pathOf(id, "explain") }, (body) =>
      explanationSchema.parse(body),
    );
  }

  /** What was recorded and is not confirmed, oldest first. */
  async obligations(options: { readonly olderThanMs?: number } = {}): Promise<Obligations["data"]> {
    const path = `/v1/obligations${queryOf(options)}`;
    return (await this.#transport.json({ method: "GET", path }, (body) => obligationListSchema.parse(body))).data;
  }

  #command(id: string, verb: string, body?: object): Promise<Run> {
    const path = pathOf(id, verb);
    const request = { method: "POST", path, idempotencyKey: crypto.randomUUID() } as const;
    return this.#transport.json(body === undefined ? request : { ...request, body }, (answer) =>
      runSchema.parse(answer),
    );
  }
}

function pathOf(id: string, verb: string): string {
  return `/v1/runs/${encodeURIComponent(id)}/${verb}`;
}
