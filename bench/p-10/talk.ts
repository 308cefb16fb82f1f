/** Conversations turn by turn, and what one turn costs: CPU of platform and worker, bytes of WAL, time to its end. */
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { exactCpuMsOf } from "../stage/cpu.ts";
import type { Stage } from "../stage/stage.ts";
import { StreamClient } from "../stage/stream-client.ts";

/**
 * Of the double: nothing that is said is said twice, on either side, as in earnest. What is equal would be kept once.
 */
export const STAMPED_ANSWERS = ["--tokens", "4", "--timestamps"] as const;
const WARM_UP_TURNS = 3;
/** What a turn leaves to be done after its end belongs to it. */
const SETTLES_MS = 60;

export interface Turn {
  readonly cpuMs: number;
  readonly walBytes: number;
  readonly finishedMs: number;
}

export class Talk implements AsyncDisposable {
  readonly #stage: Stage;
  readonly #runtime: string;
  readonly #interrupted: AbortSignal;
  readonly #client: StreamClient;
  readonly #database: pg.Client;
  #turnCount = 0;

  private constructor(stage: Stage, options: { readonly runtime: string; readonly interrupted: AbortSignal }) {
    this.#stage = stage;
    this.#runtime = options.runtime;
    this.#interrupted = options.interrupted;
    this.#client = new StreamClient({ url: stage.url, apiKey: stage.apiKey });
    this.#database = new pg.Client({ connectionString: stage.databaseUrl });
  }

  static async open(
    stage: Stage,
    options: { readonly runtime: string; readonly interrupted: AbortSignal },
  ): Promise<Talk> {
    const talk = new Talk(stage, options);
    await talk.#database.connect();
    return talk;
  }

  begin(): Promise<string> {
    return this.#stage.newConversation(this.#runtime);
  }

  /** So many turns, each with `fill` behind what it says. */
  async speak(conversation: string, turnCount: number, fill: string): Promise<void> {
    for (let turn = 0; turn < turnCount; turn += 1) await this.#turn(conversation, fill);
  }

  /** A worker that has just started has everything yet to load. */
  async warmUp(): Promise<void> {
    await this.speak(await this.begin(), WARM_UP_TURNS, "");
  }

  async measure(conversation: string): Promise<Turn> {
    const before = await this.#standing();
    const { finishedMs } = await this.#turn(conversation, "");
    await pause(SETTLES_MS);
    const after = await this.#standing();
    return { cpuMs: after.cpuMs - before.cpuMs, walBytes: after.walBytes - before.walBytes, finishedMs };
  }

  /** Size of the newest request to the model. */
  async requestBytes(conversation: string): Promise<number> {
    const { rows } = await this.#database.query<{ bytes: number }>(
      `select m.request_bytes as bytes from signalbox.model_call m join signalbox.run r on r.id = m.run_id
       where r.conversation_id = $1 order by m.started_at desc limit 1`,
      [conversation],
    );
    return rows[0]?.bytes ?? Number.NaN;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client[Symbol.dispose]();
    await this.#database.end();
  }

  async #turn(conversation: string, fill: string) {
    this.#interrupted.throwIfAborted();
    this.#turnCount += 1;
    const run = await this.#client.send(conversation, `Go on with number ${this.#turnCount}. ${fill}`);
    if (run.outcome !== "completed") throw new Error(`a turn did not complete: ${run.ending}`);
    return run;
  }

  async #standing(): Promise<{ readonly cpuMs: number; readonly walBytes: number }> {
    const { rows } = await this.#database.query<{ bytes: string }>(
      "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as bytes",
    );
    return { cpuMs: exactCpuMsOf(this.#stage.pids), walBytes: Number(rows[0]?.bytes) };
  }
}
