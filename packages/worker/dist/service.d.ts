/** WorkerService over any transport: messages in and out, errors in one form. */
import type { ConnectRouter } from "@connectrpc/connect";
import type { RuntimeDescription } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
import type { Sessions } from "./sessions.ts";
interface ServiceOptions {
    readonly incarnation: string;
    readonly joinToken: string;
    readonly sessions: Sessions;
    readonly runtimes: () => readonly RuntimeDescription[];
    readonly log: WorkerLog;
    /** Called for every call that carries the join token. */
    readonly onHeard: () => void;
}
export declare function serveWorker(options: ServiceOptions): (router: ConnectRouter) => void;
export {};
