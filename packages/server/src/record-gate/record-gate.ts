/**
 * The way of engines to their transcript: RecordService on the gates' port of the record. It writes only under the
 * generation the slot is bound to, says what is too large before the record has to, and knows nothing of what entries
 * mean.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import type { ConnectRouter, HandlerContext } from "@connectrpc/connect";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import {
  Entry_Kind,
  type EntrySchema,
  LoadResponseSchema,
  OutcomesResponseSchema,
  RecordService,
  type AppendRequest,
  type Compaction as WireCompaction,
  type Entry,
  type LoadResponse,
  type OutcomesRequest,
  type OutcomesResponse,
} from "@signalbox/contract/worker-protocol";
import type { Compaction, Digest, GateRecord, Log, TranscriptRow } from "@signalbox/core";
import { toConnectError } from "../gates/connect-error.ts";
import { slotTokenHash } from "../gates/slot-token.ts";

export interface RecordGateOptions {
  readonly record: Pick<GateRecord, "appendTranscript" | "loadTranscript" | "callOutcomes">;
  readonly digest: Digest;
  readonly log: Log;
}

const ENTRIES_MAX = 65_536;
/** Calls of one model message are far fewer. */
const OUTCOMES_MAX = 1_024;
const NAME_CHARS_MAX = 256;
/** What one message of a load carries, unless a single entry is larger. */
const LOAD_BYTES = 1024 * 1024;

export function recordRoutes(options: RecordGateOptions): (router: ConnectRouter) => void {
  return (router) => {
    router.service(RecordService, {
      append: (request, context) =>
        append(options, request, context).catch((thrown: unknown) => refuse(options, thrown)),
      load: (_request, context) => load(options, context),
      outcomes: (request, context) => outcomes(options, request, context),
    });
  };
}

async function append({ record, digest }: RecordGateOptions, request: AppendRequest, context: HandlerContext) {
  const tokenHash = tokenHashOf(context, digest);
  const { entries, cutBehind, compaction } = request;
  // To cut and add nothing is a repair as well.
  const rows = cutBehind !== "" && entries.length === 0 ? [] : readRows(entries);
  const { leaf } = await record.appendTranscript(tokenHash, rows, {
    ...(cutBehind === "" ? {} : { cutBehind }),
    ...(compaction === undefined ? {} : { compaction: readCompaction(compaction) }),
  });
  return { leaf: leaf ?? "" };
}

function readCompaction({ entryId, keptEntryIds }: WireCompaction): Compaction {
  if (keptEntryIds.length > ENTRIES_MAX || ![entryId, ...keptEntryIds].every((id) => id !== "" && isName(id))) {
    throw new PlatformError("invalid_request", `A compaction keeps at most ${ENTRIES_MAX} entries, each by its id.`);
  }
  return { entryId, keptEntryIds };
}

async function* load(options: RecordGateOptions, context: HandlerContext): AsyncGenerator<LoadResponse> {
  try {
    const tokenHash = tokenHashOf(context, options.digest);
    for await (const page of options.record.loadTranscript(tokenHash)) {
      for (const entries of inMessages(page)) yield create(LoadResponseSchema, { entries: entries.map(writeEntry) });
    }
  } catch (thrown) {
    refuse(options, thrown);
  }
}

/** One outcome per message: each is bounded by what a tool may answer. */
async function* outcomes(
  options: RecordGateOptions,
  request: OutcomesRequest,
  context: HandlerContext,
): AsyncGenerator<OutcomesResponse> {
  try {
    const { toolUseIds } = request;
    if (toolUseIds.length > OUTCOMES_MAX) {
      throw new PlatformError("invalid_request", `At most ${OUTCOMES_MAX} outcomes are asked for at once.`);
    }
    const found = await options.record.callOutcomes(tokenHashOf(context, options.digest), toolUseIds);
    for (const { toolUseId, state, resultJson } of found) {
      yield create(OutcomesResponseSchema, { outcomes: [{ toolUseId, state, resultJson: resultJson ?? "" }] });
    }
  } catch (thrown) {
    refuse(options, thrown);
  }
}

/** The one place where errors of this gate become errors of the wire. */
function refuse({ log }: RecordGateOptions, thrown: unknown): never {
  const error = asPlatformError(thrown);
  if (error.code === "internal") log.error("a call failed inside the record gate", thrown);
  throw toConnectError(error);
}

function tokenHashOf(context: HandlerContext, digest: Digest): string {
  return slotTokenHash({ authorization: context.requestHeader.get("authorization") ?? undefined }, digest);
}

function readRows(entries: readonly Entry[]): readonly TranscriptRow[] {
  if (entries.length === 0) throw new PlatformError("invalid_request", "An append has at least one entry.");
  if (entries.length > ENTRIES_MAX) {
    throw new PlatformError("payload_too_large", `An append has at most ${ENTRIES_MAX} entries.`);
  }
  return entries.map(readRow);
}

function readRow(entry: Entry): TranscriptRow {
  const { entryId, stream, body } = entry;
  if (entryId === "" || !isName(entryId) || !isName(stream)) {
    const detail = `An entry has an id, and neither id nor stream has more than ${NAME_CHARS_MAX} well-formed characters.`;
    throw new PlatformError("invalid_request", detail);
  }
  // A newer worker may name kinds that are unknown here.
  if (entry.kind !== Entry_Kind.ITEM && entry.kind !== Entry_Kind.STATE) {
    throw new PlatformError("invalid_request", "An entry is an item or a state.");
  }
  return { kind: entry.kind === Entry_Kind.ITEM ? "item" : "state", entryId, stream, body };
}

function isName(text: string): boolean {
  return text.length <= NAME_CHARS_MAX && text.isWellFormed() && !text.includes("\u0000");
}

function writeEntry(row: TranscriptRow): MessageInitShape<typeof EntrySchema> {
  const { entryId, stream, body } = row;
  return {
    kind: row.kind === "item" ? Entry_Kind.ITEM : Entry_Kind.STATE,
    entryId,
    stream,
    body: Uint8Array.from(body),
  };
}

/** A page of the record in messages of a bounded size, in order. */
function* inMessages(page: readonly TranscriptRow[]): Generator<readonly TranscriptRow[]> {
  let message: TranscriptRow[] = [];
  let sizeBytes = 0;
  for (const row of page) {
    if (message.length > 0 && sizeBytes + row.body.length > LOAD_BYTES) {
      yield message;
      message = [];
      sizeBytes = 0;
    }
    message.push(row);
    sizeBytes += row.body.length;
  }
  if (message.length > 0) yield message;
}
