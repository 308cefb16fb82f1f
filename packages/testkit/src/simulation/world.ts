/** Everything of one history in one place: who lives, who hears what, what died and comes back. */
import { makeId, uuidV7Bytes, type LiveDelta } from "@signalbox/contract";
import type { LiveChannel } from "@signalbox/core";
import { MemoryDatabase } from "../memory/database.ts";
import { openEra } from "../memory/era.ts";
import type { HoldRow } from "../memory/rows.ts";
import type { Sabotage } from "../memory/sabotage.ts";
import { rows } from "./changed-rows.ts";
import { watchCommits } from "./commit-checker.ts";
import type { Faults } from "./faults.ts";
import type { Effect } from "./gates.ts";
import { createTell, tellCommit, type Tell } from "./history.ts";
import { BEGIN_AT_MS } from "./machine.ts";
import { Network } from "./network.ts";
import { PlatformProcess, type ProcessOptions } from "./platform-process.ts";
import type { Asked } from "./plan.ts";
import { SimReader } from "./reader.ts";
import { Scheduler, type Life } from "./scheduler.ts";
import type { Seeded } from "./seeded.ts";
import { SIM_AGENT } from "./sim-agent.ts";
import { SIMULATION_LEASE_MS } from "./simulation-limits.ts";
import { SimUser, TENANT } from "./user.ts";
import type { Violation } from "./violations.ts";

export interface WorldOptions {
  readonly seed: number;
  readonly random: Seeded;
  readonly faults: Faults;
  readonly plain: boolean;
  readonly asks: Asked | null;
  readonly sabotage: Sabotage | null;
  readonly onLine: ((line: string) => void) | null;
}

const SESSION_LOST_AFTER_MS = 10;

export class World {
  readonly scheduler = new Scheduler();
  readonly db: MemoryDatabase;
  readonly network: Network;
  readonly user: SimUser;
  readonly violations: Violation[] = [];
  readonly effects: Effect[] = [];
  readonly readers: SimReader[] = [];
  readonly #options: WorldOptions;
  readonly #tell: Tell;
  readonly #processes: PlatformProcess[] = [];
  readonly #crashed = new Set<Life>();

  constructor(options: WorldOptions) {
    const { scheduler } = this;
    const { faults, random, sabotage, onLine } = options;
    this.#options = options;
    this.#tell = createTell(scheduler, onLine);
    this.db = new MemoryDatabase({
      nowMs: () => BEGIN_AT_MS + scheduler.nowMs,
      leaseMs: SIMULATION_LEASE_MS,
      sabotage,
    });
    this.db.watch((commit) => this.#tell(null, () => tellCommit(commit)));
    this.db.watch(({ changes }) => {
      for (const change of changes.filter(({ table }) => table === "hold")) {
        const { before, after } = rows<HoldRow>(change);
        // New, or asked again.
        if (after.state === "open" && before?.state !== "open") this.#askSomebody(after);
      }
    });
    watchCommits(this.db, (invariant, detail) => this.report(invariant, detail));
    this.network = new Network({ scheduler, faults, crash: (life) => this.#crash(life), tell: this.#tell });
    this.user = new SimUser({
      scheduler,
      network: this.network,
      random: random.fork(),
      agent: SIM_AGENT,
      processes: () => this.#processes,
    });
  }

  report(invariant: Violation["invariant"], detail: string): void {
    this.violations.push({ invariant, atMs: this.scheduler.nowMs, detail });
    this.#tell(null, () => `BROKEN ${invariant}: ${detail}`);
  }

  createConversations(count: number): readonly string[] {
    return Array.from({ length: count }, () => {
      const id = makeId("conversation", uuidV7Bytes(BEGIN_AT_MS, this.#options.random.bytes(10)));
      this.db.createConversation({ id, tenantId: TENANT });
      this.readers.push(new SimReader(this.db, id, 0));
      return id;
    });
  }

  /** On the calm path nobody decides what expires. */
  #askSomebody({ id, expiresAtMs }: HoldRow): void {
    if (expiresAtMs === null || !this.#options.plain) this.user.decideLater(id);
  }

  /** Somebody begins to read in the middle of things, from where the log is then. */
  joinReader(conversationId: string, atMs: number): void {
    this.scheduler.after(atMs, null, () => {
      const { lastSequence } = this.db.conversations.must(conversationId);
      const cursor = this.#options.random.between(0, lastSequence);
      this.readers.push(new SimReader(this.db, conversationId, cursor));
    });
  }

  startProcess(options: ProcessOptions): void {
    const { seed, plain, asks, faults, random } = this.#options;
    const { db, scheduler, network } = this;
    const process = new PlatformProcess(
      {
        db,
        scheduler,
        network,
        faults,
        random: random.fork(),
        seed,
        plain,
        asks,
        tell: this.#tell,
        live: this.#live(),
        onEffect: (effect) => {
          this.effects.push(effect);
          this.#tell(process.life, () => `effect ${effect.tool} ${effect.argumentsJson}`);
        },
      },
      options,
    );
    this.#processes.push(process);
    this.scheduler.after(0, process.life, () => {
      process.run().catch((thrown: unknown) => {
        throw thrown;
      });
    });
  }

  /** One process is replaced by another, as an operator would do it: first the new one, then the old one drains. */
  deploy(atMs: number): void {
    this.scheduler.after(atMs, null, () => {
      const leaving = this.#processes.find((process) => process.life.alive);
      if (leaving === undefined) return;
      this.#tell(leaving.life, () => "is asked to leave");
      this.startProcess({ ...leaving.options, name: `${leaving.life.name}+` });
      this.scheduler.after(0, leaving.life, () => this.#leave(leaving, () => (leaving.life.alive = false)));
    });
  }

  /** The connection that carries a process's presence is cut; the process itself goes on. */
  loseSession(atMs: number): void {
    this.scheduler.after(atMs, null, () => {
      const process = this.#processes.find((each) => each.life.alive);
      if (process === undefined) return;
      this.#tell(process.life, () => "loses its session");
      for (const incarnation of process.incarnations) this.db.dropSession(incarnation);
    });
  }

  /** The store turns out to be another one than it was, as after a failover: with everything that was committed. */
  replaceStore(atMs: number): void {
    this.scheduler.after(atMs, null, () => {
      this.#tell(null, () => "the store is another one");
      openEra(this.db);
    });
  }

  /** Everybody alive leaves in order. */
  async drain(limitMs: number): Promise<boolean> {
    const left = new Set<PlatformProcess>(this.#processes.filter((process) => process.life.alive));
    for (const process of left) {
      this.scheduler.after(0, process.life, () => this.#leave(process, () => left.delete(process)));
    }
    const gone = (): boolean => [...left].every((process) => !process.life.alive);
    return await this.scheduler.run(gone, this.scheduler.nowMs + limitMs);
  }

  #leave(process: PlatformProcess, then: () => void): void {
    process.supervisor
      .drain()
      .then(then)
      .catch((thrown: unknown) => this.report("INV-02", `a drain failed: ${String(thrown)}`));
  }

  #crash(life: Life): void {
    const process = this.#processes.find((each) => each.life === life);
    if (process === undefined || this.#crashed.has(life)) return;
    this.#crashed.add(life);
    life.alive = false;
    this.#tell(life, () => "dies");
    const { faults } = this.#options;
    this.scheduler.after(SESSION_LOST_AFTER_MS, null, () => {
      for (const incarnation of process.incarnations) this.db.dropSession(incarnation);
    });
    this.scheduler.after(faults.restartMs(), null, () =>
      this.startProcess({ ...process.options, name: `${life.name}'` }),
    );
  }

  #live(): LiveChannel {
    const { scheduler } = this;
    const { faults } = this.#options;
    const soon = (work: () => void): void => scheduler.after(faults.delayMs(), null, work);
    return {
      publish: (delta: LiveDelta) => {
        for (const reader of this.readers) {
          if (reader.conversationId === delta.conversationId && !faults.dropsDelta()) soon(() => reader.hear(delta));
        }
      },
      ring: () => undefined,
      ringGates: () => undefined,
      ringSupervisors: () => {
        for (const { life, supervisor } of this.#processes) {
          if (life.alive && !faults.dropsBell()) scheduler.after(faults.delayMs(), life, () => supervisor.wake());
        }
      },
    };
  }
}
