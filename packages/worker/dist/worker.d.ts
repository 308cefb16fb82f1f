import type { ConnectRouter } from "@connectrpc/connect";
import type { PlatformError } from "@signalbox/contract";
import { type WorkerClock } from "./clock.ts";
import type { LoadExecutor, RuntimeDescription, TranscriptLog } from "./executor.ts";
import { type WorkerLog } from "./log.ts";
export interface WorkerOptions {
    readonly joinToken: string;
    /** Runtime name → how to import its executor. Every one is loaded and described before the worker announces itself. */
    readonly runtimes: Readonly<Record<string, LoadExecutor>>;
    /** Where RegistryService is. Absent: the worker announces itself to nobody; the embedding process knows it. */
    readonly platformUrl?: string;
    /** Host to listen on, 127.0.0.1 by default; `null` opens no socket (see `workerRoutes`). */
    readonly host?: string | null;
    /** 0, the default, takes any free port. */
    readonly port?: number;
    /** Address to announce, when the platform reaches the worker by another than it listens on. */
    readonly advertise?: string;
    /** Steps that may run at once, 64 by default. */
    readonly room?: number;
    /** Serves snapshots of older releases that name no runtime; `langgraph` by default. */
    readonly defaultRuntime?: string;
    /** Folder to make the private scratch directory in; the system's temporary folder by default. */
    readonly scratchRoot?: string;
    readonly clock?: WorkerClock;
    readonly log?: WorkerLog;
    /** Replaces the record gate's client, for a process that holds the record itself. */
    readonly transcript?: (recordUrl: string, slotToken: string) => TranscriptLog;
    readonly sessionIdleMaxMs?: number;
    readonly sessionAgeMaxMs?: number;
    readonly drainMs?: number;
    /** The platform refused the join token; announcing again will not help. */
    readonly onRefused?: (error: PlatformError) => void;
}
export interface Worker extends AsyncDisposable {
    /** A random name of this start of the worker. */
    readonly incarnation: string;
    /** What the platform dials; empty when the worker opened no socket. */
    readonly address: string;
    readonly runtimes: readonly RuntimeDescription[];
    /** WorkerService for a router in the same process; calls still carry the join token. */
    readonly routes: (router: ConnectRouter) => void;
    /** Starts nothing new, lets running steps end within the bound, interrupts the rest. Idempotent. */
    drain(): Promise<void>;
}
export declare function startWorker(options: WorkerOptions): Promise<Worker>;
/** WorkerService of a started worker, for `createRouterTransport` in the same process. */
export declare function workerRoutes(worker: Worker): (router: ConnectRouter) => void;
