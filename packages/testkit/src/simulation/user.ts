/** People who send messages and cancel runs, and who ask again with the same key until they are answered. */
import { PlatformError, type Actor, type HoldId, type WhenBusy } from "@signalbox/contract";
import type { Admission, AgentRevision } from "@signalbox/core";
import type { Network } from "./network.ts";
import type { PlatformProcess } from "./platform-process.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import type { Seeded } from "./seeded.ts";

export const TENANT = "default";

const SIM_ACTOR: Actor = { keyId: "key_sim", user: "u_1", roles: [], units: [] };

export interface PlannedMessage {
  readonly conversationId: string;
  readonly atMs: number;
  readonly whenBusy: WhenBusy;
  /** How long after its acknowledgement it is cancelled; `null`: it is not. */
  readonly cancelAfterMs: number | null;
}

export interface Sent {
  readonly message: PlannedMessage;
  readonly key: string;
  /** `null` while nobody has answered; a refusal is an answer. */
  answer: Admission | { readonly refused: string } | null;
}

export interface UserOptions {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly random: Seeded;
  readonly agent: AgentRevision;
  readonly processes: () => readonly PlatformProcess[];
}

const PATIENCE_MS = 3_000;
const RETRY_MS = 200;
const MUST_BE_ASKED_AGAIN: ReadonlySet<string> = new Set(["database_unavailable", "provider_unreachable", "no_answer"]);

export class SimUser {
  readonly sent: Sent[] = [];
  readonly #options: UserOptions;
  readonly #life: Life = { name: "user", alive: true, stalledUntilMs: 0 };

  constructor(options: UserOptions) {
    this.#options = options;
  }

  plan(messages: readonly PlannedMessage[]): void {
    for (const message of messages) {
      const sent: Sent = { message, key: `key ${this.sent.length}`, answer: null };
      this.sent.push(sent);
      this.#options.scheduler.after(message.atMs, this.#life, () => {
        this.#send(sent).catch((thrown: unknown) => {
          sent.answer = { refused: String(thrown) };
        });
      });
    }
  }

  /** Somebody decides what a run waits for, sooner or later. */
  decideLater(holdId: HoldId): void {
    const { random, scheduler } = this.#options;
    scheduler.after(random.chance(0.3) ? random.between(2_000, 12_000) : random.between(0, 400), this.#life, () => {
      const command = {
        tenantId: TENANT,
        actor: SIM_ACTOR,
        holdId,
        decision: "approve",
        response: {},
        digest: null,
      } as const;
      // Refused where the run has ended meanwhile.
      this.#until((process) => process.decide(command)).catch(() => undefined);
    });
  }

  async #send(sent: Sent): Promise<void> {
    const { conversationId, whenBusy, cancelAfterMs } = sent.message;
    const { agent } = this.#options;
    sent.answer = await this.#until((process) =>
      process.admission.submit({
        tenantId: TENANT,
        conversationId,
        actor: SIM_ACTOR,
        agent,
        text: `message ${sent.key}`,
        metadata: {},
        asked: { whenBusy },
        traceId: null,
        idempotency: { key: sent.key, bodyHash: sent.key },
      }),
    );
    if (cancelAfterMs === null || "refused" in sent.answer) return;
    const { runId } = sent.answer;
    await this.#pause(cancelAfterMs);
    await this.#until((process) => process.admission.cancel({ tenantId: TENANT, runId, actor: SIM_ACTOR }));
  }

  /** Asks one process after the other until there is an answer that stands. */
  async #until<T>(ask: (process: PlatformProcess) => Promise<T>): Promise<T | { readonly refused: string }> {
    for (;;) {
      try {
        return await this.#ask(ask);
      } catch (thrown) {
        const code = thrown instanceof PlatformError ? thrown.code : thrown instanceof Error ? thrown.message : "?";
        if (!MUST_BE_ASKED_AGAIN.has(code)) return { refused: code };
      }
      await this.#pause(RETRY_MS);
    }
  }

  #ask<T>(ask: (process: PlatformProcess) => Promise<T>): Promise<T> {
    const { network, random, processes } = this.#options;
    const awake = processes().filter((process) => process.life.alive);
    if (awake.length === 0) return Promise.reject(new Error("no_answer"));
    const process = random.pick(awake);
    const patience = this.#pause(PATIENCE_MS).then((): Promise<never> => Promise.reject(new Error("no_answer")));
    return Promise.race([network.between(this.#life, process.life, () => ask(process)), patience]);
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#options.scheduler.after(delayMs, this.#life, resolve));
  }
}
