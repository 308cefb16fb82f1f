import { Code, ConnectError, createClient, createRouterTransport, type HandlerContext } from "@connectrpc/connect";
import { PlatformError } from "@signalbox/contract";
import { RecordService, type AppendRequest } from "@signalbox/contract/worker-protocol";
import { describe, expect, it } from "vitest";
import type { WorkerClock } from "./clock.ts";
import type { TranscriptEntry, TranscriptLog } from "./executor.ts";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import { createTranscriptLog } from "./record-client.ts";
import { toConnectError } from "./rpc-errors.ts";

const impatient: WorkerClock = { nowMs: () => 0, monotonicMs: () => 0, sleep: () => Promise.resolve("elapsed") };

interface Gate {
  readonly log: TranscriptLog;
  readonly calls: AppendRequest[];
  readonly tokens: (string | null)[];
}

/** A record gate that answers call `n` with `answers[n]`, then accepts. */
function gate(answers: readonly (ConnectError | null)[] = []): Gate {
  const calls: AppendRequest[] = [];
  const tokens: (string | null)[] = [];
  const answer = (context: HandlerContext): void => {
    tokens.push(context.requestHeader.get("authorization"));
    const error = answers[tokens.length - 1];
    if (error !== undefined && error !== null) {
      throw error;
    }
  };
  const transport = createRouterTransport((router) => {
    router.service(RecordService, {
      append: (request, context) => {
        answer(context);
        calls.push(request);
        return { leaf: request.entries.at(-1)?.entryId ?? "" };
      },
      async *load(_request, context) {
        yield { entries: [{ entryId: "a", body: new Uint8Array([1]) }] };
        answer(context);
        yield { entries: [{ entryId: "b", body: new Uint8Array([2]) }] };
      },
    });
  });
  return { log: createTranscriptLog(createClient(RecordService, transport), "slot", impatient), calls, tokens };
}

function entry(entryId: string, bytes: number): TranscriptEntry {
  return { kind: "item", entryId, stream: "", body: new Uint8Array(bytes) };
}

describe("record client", () => {
  it("presents the slot token and keeps the order", async () => {
    const { log, calls, tokens } = gate();
    await log.append([entry("1", 10), entry("2", 10)]);
    expect(tokens).toEqual(["Bearer slot"]);
    expect(calls[0]?.entries.map(({ entryId }) => entryId)).toEqual(["1", "2"]);
  });

  it("splits what does not fit one call, in order", async () => {
    const { log, calls } = gate();
    const entries = Array.from({ length: 9 }, (_, at) => entry(String(at), MESSAGE_BYTES_MAX / 4));
    await log.append(entries);
    expect(calls.map((call) => call.entries.length)).toEqual([3, 3, 3]);
    expect(calls.flatMap((call) => call.entries.map(({ entryId }) => entryId))).toEqual("012345678".split(""));
  });

  it("refuses an entry no call can carry, says its size, and writes nothing", async () => {
    const { log, calls } = gate();
    const failure = await log.append([entry("1", 10), entry("2", 5_000_000)]).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "payload_too_large" });
    expect(String(failure)).toContain("5000000");
    expect(calls).toHaveLength(0);
  });

  it("asks again when the gate did not answer, and gives up after a while", async () => {
    const unavailable = new ConnectError("gone", Code.Unavailable);
    const again = gate([unavailable, unavailable]);
    await again.log.append([entry("1", 1)]);
    expect(again.tokens).toHaveLength(3);
    const never = gate(Array.from({ length: 20 }, () => unavailable));
    await expect(never.log.append([entry("1", 1)])).rejects.toMatchObject({ code: "transcript_not_durable" });
    expect(never.tokens).toHaveLength(4);
  });

  it("never asks again as an owner that is stale", async () => {
    const { log, tokens } = gate([toConnectError(new PlatformError("stale_generation"))]);
    await expect(log.append([entry("1", 1)])).rejects.toMatchObject({ code: "stale_generation" });
    expect(tokens).toHaveLength(1);
  });

  it("loads from the start again when the stream breaks in the middle", async () => {
    const { log } = gate([new ConnectError("cut", Code.Unavailable)]);
    const entries = await log.load();
    expect(entries.map(({ entryId }) => entryId)).toEqual(["a", "b"]);
  });
});
