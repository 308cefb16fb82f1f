import { type Client } from "@connectrpc/connect";
import { RecordService } from "@signalbox/contract/worker-protocol";
import type { WorkerClock } from "./clock.ts";
import type { TranscriptLog } from "./executor.ts";
/** Connections to record gates, shared by all sessions of a worker. */
export declare class RecordConnections implements Disposable {
    #private;
    constructor(clock: WorkerClock);
    log(recordUrl: string, slotToken: string): TranscriptLog;
    [Symbol.dispose](): void;
}
/** The log of one session over any client of RecordService. */
export declare function createTranscriptLog(client: Client<typeof RecordService>, slotToken: string, clock: WorkerClock): TranscriptLog;
