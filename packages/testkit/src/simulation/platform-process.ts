/** One simulated platform process: supervisor, admission and gates as they are, on simulated ports. */
import { asPlatformError } from "@signalbox/contract";
import {
  createAdmission,
  createSupervisor,
  type AdmissionFlow,
  type LiveChannel,
  type OperatorRecord,
  type Supervisor,
} from "@signalbox/core";
import type { MemoryDatabase } from "../memory/database.ts";
import type { Faults } from "./faults.ts";
import { SimGates, type Effect } from "./gates.ts";
import type { Tell } from "./history.ts";
import { createMachine, type Machine } from "./machine.ts";
import type { Network } from "./network.ts";
import type { Asked } from "./plan.ts";
import { SimPool } from "./pool.ts";
import { recordPorts } from "./record-ports.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import type { Seeded } from "./seeded.ts";
import { SimWorker } from "./worker.ts";
import { SIMULATION_LIMITS } from "./simulation-limits.ts";

export interface SimHost {
  readonly db: MemoryDatabase;
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly faults: Faults;
  readonly random: Seeded;
  readonly seed: number;
  readonly plain: boolean;
  readonly asks: Asked | null;
  readonly tell: Tell;
  readonly live: LiveChannel;
  readonly onEffect: (effect: Effect) => void;
}

export interface ProcessOptions {
  readonly name: string;
  readonly workerCount: number;
  readonly roomPerWorker: number;
}

const RESTART_RETRY_MS = 500;

export class PlatformProcess {
  readonly life: Life;
  readonly options: ProcessOptions;
  readonly supervisor: Supervisor;
  readonly admission: AdmissionFlow;
  readonly decide: OperatorRecord["decide"];
  /** Incarnations whose presence hangs on this process. */
  readonly incarnations: number[] = [];
  readonly #host: SimHost;
  readonly #machine: Machine;
  readonly #gates: SimGates;
  readonly #pool: SimPool;
  #workerSerial = 0;

  constructor(host: SimHost, options: ProcessOptions) {
    const { db, network, scheduler, faults, random, tell, live } = host;
    this.#host = host;
    this.options = options;
    this.life = { name: options.name, alive: true, stalledUntilMs: 0 };
    const life = this.life;
    const machine = createMachine({
      scheduler,
      life,
      random: random.fork(),
      skewMs: random.between(-120_000, 120_000),
      tell,
    });
    const onRegistered = (incarnation: number): void => {
      this.incarnations.push(incarnation);
    };
    const record = recordPorts({ db, network, life, onRegistered });
    const onRoom = (cause: "worker" | "seat"): void =>
      cause === "seat" ? this.supervisor.roomGrew() : this.supervisor.wake();
    const { randomness } = machine;
    const { roomPerWorker } = options;
    this.#machine = machine;
    this.#pool = new SimPool({ life, network, scheduler, faults, randomness, roomPerWorker, onRoom });
    this.supervisor = createSupervisor(
      { ...machine, record: record.ownership, processes: record.processes, pool: this.#pool, live },
      { roles: ["supervisor", "gate"], limits: SIMULATION_LIMITS },
    );
    this.admission = createAdmission({
      ...machine,
      record: record.admission,
      handover: this.supervisor,
      live,
      steerable: () => ["langgraph"],
    });
    const process = (): number | null => this.supervisor.process();
    this.decide = async (command) => {
      const change = await record.holds.decide(command);
      if (change.ready) live.ringSupervisors();
      return change;
    };
    this.#gates = new SimGates({
      record: record.gates,
      holds: record.holds,
      machine,
      process,
      onEffect: host.onEffect,
    });
  }

  /** Starts as often as it takes: the record may be away. */
  async run(): Promise<void> {
    for (let started = false; !started;) {
      try {
        await this.supervisor.start();
        started = true;
      } catch (thrown) {
        this.#host.tell(this.life, () => `could not start: ${asPlatformError(thrown).code}`);
        await this.#machine.clock.sleep(RESTART_RETRY_MS);
      }
    }
    for (let count = 0; count < this.options.workerCount; count += 1) this.#startWorker();
  }

  #startWorker(): void {
    const { network, scheduler, faults, random, seed, plain, asks, tell } = this.#host;
    this.#workerSerial += 1;
    const life: Life = { name: `${this.life.name}/w${this.#workerSerial}`, alive: true, stalledUntilMs: 0 };
    const again = (): void => scheduler.after(faults.restartMs(), this.life, () => this.#startWorker());
    const worker: SimWorker = new SimWorker({
      life,
      machine: createMachine({ scheduler, life, random: random.fork(), skewMs: 0, tell }),
      network,
      scheduler,
      faults,
      seed,
      plain,
      asks,
      home: { life: this.life, gates: this.#gates },
      onCutOff: () => {
        tell(life, () => "cut off from its supervisor");
        this.#pool.lose(worker, "cut_off");
        again();
      },
      onDeath: () => {
        tell(life, () => "dies");
        life.alive = false;
        this.#pool.lose(worker, "died");
        again();
      },
    });
    this.#pool.connect(worker);
  }
}
