/** Places in the record's transactions where they stand still until a test lets them go on. */
import { randomInt } from "node:crypto";
import pg from "pg";
import type { ClonedDatabase } from "../../setup/clone-database.ts";
import { until } from "../../setup/until.ts";

export interface FaultPoint {
  /** Before a row of this table is written, or before the transaction that wrote it commits. */
  readonly table: "run" | "message" | "ownership" | "idempotency";
  readonly on: "insert" | "update";
  readonly when: "before" | "at_commit";
  /** Condition over `new`. */
  readonly where: string;
}

export class HeldPoint implements AsyncDisposable {
  readonly #client: pg.Client;
  readonly #lock: number;

  private constructor(client: pg.Client, lock: number) {
    this.#client = client;
    this.#lock = lock;
  }

  /** From now on whoever comes here waits. */
  static async hold(database: ClonedDatabase, point: FaultPoint): Promise<HeldPoint> {
    const client = new pg.Client(database.config);
    await client.connect();
    const lock = randomInt(1, 2 ** 31 - 1);
    const name = `fault_${lock}`;
    const moment = point.when === "before" ? "before" : "after";
    const constraint = point.when === "before" ? "" : "constraint";
    const deferred = point.when === "before" ? "" : "deferrable initially deferred";
    await client.query(`
      create function public.${name}() returns trigger language plpgsql security definer as $$
      begin
        perform pg_advisory_xact_lock_shared(${lock});
        return new;
      end $$;
      create ${constraint} trigger ${name} ${moment} ${point.on} on signalbox.${point.table}
        ${deferred} for each row when (${point.where}) execute function public.${name}();`);
    await client.query("select pg_advisory_lock($1)", [lock]);
    return new HeldPoint(client, lock);
  }

  /** Resolves when so many transactions stand here. */
  async reached(count = 1): Promise<void> {
    await until("a transaction at the fault point", async () => (await this.#waiting()).length >= count);
  }

  /** Resolves when somebody waits for a transaction that stands here. */
  async blocksOthers(count = 1): Promise<void> {
    await until("somebody behind the fault point", async () => {
      const { rows } = await this.#client.query<{ pid: number }>(
        `select pid from pg_stat_activity where datname = current_database()
           and exists (select from unnest(pg_blocking_pids(pid)) as blocker where blocker <> $1)`,
        [await this.#pid()],
      );
      return rows.length >= count;
    });
  }

  /** The sessions that stand here die, as with a server that is killed. */
  async kill(): Promise<void> {
    for (const pid of await this.#waiting()) await this.#client.query("select pg_terminate_backend($1)", [pid]);
  }

  async letGo(): Promise<void> {
    await this.#client.query("select pg_advisory_unlock($1)", [this.#lock]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end();
  }

  async #waiting(): Promise<readonly number[]> {
    const { rows } = await this.#client.query<{ pid: number }>(
      `select pid from pg_locks where locktype = 'advisory' and not granted and objid = $1::bigint::oid
         and database = (select oid from pg_database where datname = current_database())`,
      [this.#lock],
    );
    return rows.map(({ pid }) => pid);
  }

  async #pid(): Promise<number> {
    const { rows } = await this.#client.query<{ pid: number }>("select pg_backend_pid() as pid");
    return rows[0]?.pid ?? 0;
  }
}
