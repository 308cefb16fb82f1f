/**
 * The record gate as an engine's transcript log: Connect over HTTP/1.1 on kept connections, authenticated and fenced
 * by the slot token. Appends may be repeated (the same entry id changes nothing), so a lost answer is asked for again.
 */
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { ERROR_CODES, PlatformError } from "@signalbox/contract";
import { Entry_Kind, RecordService, type Entry } from "@signalbox/contract/worker-protocol";
import type { WorkerClock } from "./clock.ts";
import type { CallOutcome, Compaction, TranscriptEntry, TranscriptLog } from "./executor.ts";
import {
  MESSAGE_BYTES_MAX,
  MESSAGE_OVERHEAD_BYTES,
  RECORD_BACKOFF_MAX_MS,
  RECORD_BACKOFF_MIN_MS,
  RECORD_TIMEOUT_MS,
  RECORD_TRIES_MAX,
} from "./limits.ts";
import { fromConnectError } from "./rpc-errors.ts";

/** Room in one call for entries; each also costs its ids. */
const CALL_BYTES_MAX = MESSAGE_BYTES_MAX - MESSAGE_OVERHEAD_BYTES;
const ENTRY_OVERHEAD_BYTES = 64;

/** Connections to record gates, shared by all sessions of a worker. */
export class RecordConnections implements Disposable {
  readonly #http = new HttpAgent({ keepAlive: true, scheduling: "lifo" });
  readonly #https = new HttpsAgent({ keepAlive: true, scheduling: "lifo" });
  readonly #clients = new Map<string, Client<typeof RecordService>>();
  readonly #clock: WorkerClock;

  constructor(clock: WorkerClock) {
    this.#clock = clock;
  }

  log(recordUrl: string, slotToken: string): TranscriptLog {
    let client = this.#clients.get(recordUrl);
    if (client === undefined) {
      client = createClient(RecordService, this.#transport(recordUrl));
      this.#clients.set(recordUrl, client);
    }
    return createTranscriptLog(client, slotToken, this.#clock);
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
    this.#clients.clear();
  }

  #transport(recordUrl: string): Transport {
    return createConnectTransport({
      baseUrl: recordUrl,
      httpVersion: "1.1",
      nodeOptions: { agent: recordUrl.startsWith("https:") ? this.#https : this.#http },
      readMaxBytes: MESSAGE_BYTES_MAX,
      writeMaxBytes: MESSAGE_BYTES_MAX,
      acceptCompression: [],
    });
  }
}

/** The log of one session over any client of RecordService. */
export function createTranscriptLog(
  client: Client<typeof RecordService>,
  slotToken: string,
  clock: WorkerClock,
): TranscriptLog {
  const headers = { authorization: `Bearer ${slotToken}` };
  return {
    async append(entries, compaction) {
      for (const call of intoCalls(entries)) {
        const isAnew = call.some((entry) => entry.stream === "" && entry.entryId === compaction?.entryId);
        const request = { entries: call.map(writeEntry), ...(isAnew ? writeCompaction(compaction) : {}) };
        await repeated(clock, async () => {
          await client.append(request, { headers, timeoutMs: RECORD_TIMEOUT_MS });
        });
      }
    },
    async replaceTail(behind, entries) {
      const [call = [], ...rest] = intoCalls(entries);
      if (rest.length > 0) {
        throw new PlatformError("payload_too_large", "The repaired end of the transcript is too large for one append.");
      }
      await repeated(clock, async () => {
        const request = { entries: call.map(writeEntry), cutBehind: behind };
        await client.append(request, { headers, timeoutMs: RECORD_TIMEOUT_MS });
      });
    },
    outcomes(toolUseIds) {
      return repeated(clock, async () => {
        const outcomes: CallOutcome[] = [];
        const request = { toolUseIds: [...toolUseIds] };
        for await (const chunk of client.outcomes(request, { headers, timeoutMs: RECORD_TIMEOUT_MS })) {
          outcomes.push(
            ...chunk.outcomes.map(({ toolUseId, state, resultJson }) => ({ toolUseId, state, resultJson })),
          );
        }
        return outcomes;
      });
    },
    load() {
      return repeated(clock, async () => {
        const entries: TranscriptEntry[] = [];
        for await (const chunk of client.load({}, { headers, timeoutMs: RECORD_TIMEOUT_MS })) {
          entries.push(...chunk.entries.map(readEntry));
        }
        return entries;
      });
    },
  };
}

async function repeated<T>(clock: WorkerClock, call: () => Promise<T>): Promise<T> {
  for (let tryCount = 1; ; tryCount += 1) {
    try {
      return await call();
    } catch (thrown) {
      const error = fromConnectError(thrown, "transcript_not_durable");
      if (!ERROR_CODES[error.code].retryable || tryCount >= RECORD_TRIES_MAX) {
        throw error;
      }
      const backoffMs = Math.min(RECORD_BACKOFF_MAX_MS, RECORD_BACKOFF_MIN_MS * 2 ** (tryCount - 1));
      await clock.sleep(backoffMs * (1 + Math.random()));
    }
  }
}

/** Splits entries into calls that fit. Order is kept, and later calls start only after earlier ones are durable. */
function intoCalls(entries: readonly TranscriptEntry[]): readonly (readonly TranscriptEntry[])[] {
  const calls: TranscriptEntry[][] = [];
  let callBytes = Number.POSITIVE_INFINITY;
  for (const entry of entries) {
    const entryBytes = entry.body.byteLength + entry.entryId.length + entry.stream.length + ENTRY_OVERHEAD_BYTES;
    if (entryBytes > CALL_BYTES_MAX) {
      throw new PlatformError(
        "payload_too_large",
        `A transcript entry has ${entry.body.byteLength} bytes; at most ${CALL_BYTES_MAX} can be kept.`,
      );
    }
    if (callBytes + entryBytes > CALL_BYTES_MAX) {
      calls.push([]);
      callBytes = 0;
    }
    calls.at(-1)?.push(entry);
    callBytes += entryBytes;
  }
  return calls;
}

function writeCompaction(compaction: Compaction | undefined) {
  return compaction === undefined
    ? {}
    : { compaction: { entryId: compaction.entryId, keptEntryIds: [...compaction.keptEntryIds] } };
}

function writeEntry(entry: TranscriptEntry) {
  return {
    kind: entry.kind === "item" ? Entry_Kind.ITEM : Entry_Kind.STATE,
    entryId: entry.entryId,
    stream: entry.stream,
    // Copied into a plain buffer-backed array only when it is not one already: protobuf wants that exact type.
    body: new Uint8Array(entry.body.buffer as ArrayBuffer, entry.body.byteOffset, entry.body.byteLength),
  };
}

function readEntry(entry: Entry): TranscriptEntry {
  return {
    kind: entry.kind === Entry_Kind.STATE ? "state" : "item",
    entryId: entry.entryId,
    stream: entry.stream,
    body: entry.body,
  };
}
