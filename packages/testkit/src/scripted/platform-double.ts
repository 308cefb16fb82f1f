/**
 * The platform as a worker sees it, without a platform: RegistryService and RecordService on one HTTP/1.1 address, the
 * record gate with the rules of `MemoryTranscript`. Model and tool gates are the scripted neighbours themselves.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import {
  Entry_Kind,
  RecordService,
  RegistryService,
  type Entry,
  type RegisterRequest,
} from "@signalbox/contract/worker-protocol";
import { MESSAGE_BYTES_MAX, toConnectError, type TranscriptEntry } from "@signalbox/worker";
import { newWatchers } from "../sim/watchers.ts";
import type { MemoryTranscript } from "./memory-transcript.ts";

const WAIT_DEFAULT_MS = 5_000;

/** What the double asks of workers and tells them. */
export interface PlatformDoubleOptions {
  readonly joinToken: string;
  /** Told to workers; 10 s by default. */
  readonly leaseMs?: number;
  /** 0, the default, takes any free port. */
  readonly port?: number;
}

/** A running double: registrations it got, and the transcripts behind its slots. Disposing of it stops it. */
export interface PlatformDouble extends AsyncDisposable {
  readonly url: string;
  readonly registrations: readonly RegisterRequest[];
  /** What is appended under this slot from now on goes to this transcript, under its present generation. */
  bind(slotToken: string, transcript: MemoryTranscript): void;
  /** Waits for so many registrations; ends with `internal` after `withinMs`. */
  waitForRegistrations(count: number, withinMs?: number): Promise<void>;
}

interface Slot {
  readonly transcript: MemoryTranscript;
  readonly generation: number;
}

/**
 * Starts the double on 127.0.0.1. A worker with another join token is refused with gRPC status `unauthenticated`, a
 * slot that was never bound with `slot_unknown`, and one whose transcript has a new owner with `stale_generation`.
 */
export async function startPlatformDouble(options: PlatformDoubleOptions): Promise<PlatformDouble> {
  const slots = new Map<string, Slot>();
  const registrations: RegisterRequest[] = [];
  const { changed, waitFor } = newWatchers();
  const routes = (router: ConnectRouter): void => {
    router.service(RegistryService, {
      register: (request, context) => {
        if (context.requestHeader.get("authorization") !== `Bearer ${options.joinToken}`) {
          throw new ConnectError("the join token is not this platform's", Code.Unauthenticated);
        }
        registrations.push(request);
        changed();
        return { leaseMs: options.leaseMs ?? 10_000 };
      },
    });
    recordRoutes(router, slots);
  };
  const server = createServer(
    connectNodeAdapter({ routes, readMaxBytes: MESSAGE_BYTES_MAX, writeMaxBytes: MESSAGE_BYTES_MAX }),
  );
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  // A TCP server that listens has an address of this kind.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    registrations,
    bind: (slotToken, transcript) => slots.set(slotToken, { transcript, generation: transcript.generation }),
    waitForRegistrations: (count, withinMs = WAIT_DEFAULT_MS) =>
      waitFor({
        holds: () => registrations.length >= count,
        withinMs,
        seen: () => `${registrations.length} registrations`,
      }),
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function recordRoutes(router: ConnectRouter, slots: ReadonlyMap<string, Slot>): void {
  const slotOf = (header: Headers): Slot => {
    const slot = slots.get((header.get("authorization") ?? "").replace("Bearer ", ""));
    if (slot === undefined) {
      throw new PlatformError("slot_unknown");
    }
    return slot;
  };
  router.service(RecordService, {
    append: (request, context) => {
      try {
        const { transcript, generation } = slotOf(context.requestHeader);
        transcript.append(request.entries.map(readEntry), generation);
        return { leaf: request.entries.findLast((entry) => entry.stream === "")?.entryId ?? "" };
      } catch (thrown) {
        throw toConnectError(asPlatformError(thrown));
      }
    },
    async *load(_request, context) {
      try {
        const { transcript, generation } = slotOf(context.requestHeader);
        for (const entry of await transcript.log(generation).load()) {
          yield { entries: [{ ...entry, kind: wireKind(entry), body: new Uint8Array(entry.body) }] };
        }
      } catch (thrown) {
        throw toConnectError(asPlatformError(thrown));
      }
    },
  });
}

function readEntry(entry: Entry): TranscriptEntry {
  const kind = entry.kind === Entry_Kind.STATE ? "state" : "item";
  return { kind, entryId: entry.entryId, stream: entry.stream, body: entry.body };
}

function wireKind(entry: TranscriptEntry): Entry_Kind {
  return entry.kind === "state" ? Entry_Kind.STATE : Entry_Kind.ITEM;
}
