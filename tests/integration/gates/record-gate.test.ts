/** RecordService on the gates' port of the record, as a worker uses it: fenced, bounded, with codes of our table. */
import { Agent } from "node:http";
import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { PlatformError } from "@signalbox/contract";
import { Entry_Kind, RecordService } from "@signalbox/contract/worker-protocol";
import {
  createTranscriptLog,
  MESSAGE_BYTES_MAX,
  systemClock as workerClock,
  type TranscriptLog,
} from "@signalbox/worker";
import { describe, expect, it } from "vitest";
import { createGateServer, type Gate } from "../../../packages/server/src/gates/gate-server.ts";
import { recordRoutes } from "../../../packages/server/src/record-gate/record-gate.ts";
import { systemClock, systemDigest } from "../../../packages/server/src/system/ports.ts";
import { recordingLog } from "./gate-fixture.ts";
import { snapshotWith, TOKEN, WatchedRecord } from "./watched-record.ts";

type RecordClient = Client<typeof RecordService>;
type Entries = NonNullable<Parameters<RecordClient["append"]>[0]["entries"]>;

interface Fixture {
  readonly record: WatchedRecord;
  readonly client: RecordClient;
  readonly log: TranscriptLog;
  readonly logged: ReturnType<typeof recordingLog>;
}

const nothing: Gate = { handle: (_request, response) => response.writeHead(404).end() };

async function withGate(test: (fixture: Fixture) => Promise<void>): Promise<void> {
  const record = await WatchedRecord.open(snapshotWith({}));
  const logged = recordingLog();
  await using server = await createGateServer({
    modelGate: nothing,
    toolGate: nothing,
    connectRoutes: [recordRoutes({ record, digest: systemDigest, log: logged })],
    messageBytesMax: MESSAGE_BYTES_MAX,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  });
  const agent = new Agent({ keepAlive: true });
  const transport = createConnectTransport({
    baseUrl: server.url,
    httpVersion: "1.1",
    nodeOptions: { agent },
    readMaxBytes: MESSAGE_BYTES_MAX,
  });
  const client = createClient(RecordService, transport);
  try {
    await test({ record, client, log: createTranscriptLog(client, TOKEN, workerClock), logged });
  } finally {
    agent.destroy();
  }
}

const entry = (id: string, body = "{}", stream = "") =>
  ({ kind: "item", entryId: id, stream, body: Buffer.from(body) }) as const;
const headers = { authorization: `Bearer ${TOKEN}` };
const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(() => null).catch((thrown: unknown) => thrown);

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  const thrown = await failureOf(work);
  return thrown instanceof PlatformError ? thrown.code : thrown;
}

async function refusalOf(work: Promise<unknown>): Promise<readonly unknown[]> {
  const refused = ConnectError.from(await failureOf(work));
  return [refused.code, refused.metadata.get("signalbox-code"), refused.rawMessage];
}

describe("an engine's transcript", () => {
  it("is appended under the bound generation and loaded again in order", () =>
    withGate(async ({ log, client, record }) => {
      const entries = [{ kind: Entry_Kind.ITEM, entryId: "a", body: Buffer.from("{}") }];
      expect((await client.append({ entries }, { headers })).leaf).toBe("a");
      await log.append([entry("b", '{"n":1}'), entry("s", "x", "subagents/1"), { ...entry("c"), kind: "state" }]);
      const loaded = await log.load();
      expect(loaded.map((each) => [each.kind, each.entryId, each.stream, Buffer.from(each.body).toString()])).toEqual([
        ["item", "a", "", "{}"],
        ["item", "b", "", '{"n":1}'],
        ["item", "s", "subagents/1", "x"],
        ["state", "c", "", "{}"],
      ]);
      expect(record.db.entries.all().every((row) => row.generation === record.generation)).toBe(true);
    }));

  it("does not grow when an append is repeated", () =>
    withGate(async ({ log }) => {
      await log.append([entry("a"), entry("b")]);
      await log.append([entry("a"), entry("b")]);
      expect(await log.load()).toHaveLength(2);
    }));

  it("travels in messages of a bounded size, whatever its length", () =>
    withGate(async ({ log, client }) => {
      const body = "x".repeat(400_000);
      await log.append(Array.from({ length: 12 }, (_, place) => entry(`e${place}`, body)));
      const sizes: number[] = [];
      for await (const { entries } of client.load({}, { headers })) {
        sizes.push(entries.reduce((sum, each) => sum + each.body.length, 0));
      }
      expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(12 * 400_000);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(1024 * 1024);
    }));
});

describe("an append that is refused", () => {
  it("comes from an earlier owner: nothing is written", () =>
    withGate(async ({ log, record }) => {
      await log.append([entry("a")]);
      await record.changeWorker();
      expect(await codeOf(log.append([entry("b")]))).toBe("slot_unknown");
      expect(await codeOf(log.load())).toBe("slot_unknown");
      await record.bind();
      await log.append([entry("b")]);
      record.failures.appendTranscript = ["stale_generation"];
      expect(await codeOf(log.append([entry("c")]))).toBe("stale_generation");
      expect(record.db.entries.all().map((row) => row.entryId)).toEqual(["a", "b"]);
    }));

  it("has no token, or not one of ours", () =>
    withGate(async ({ client }) => {
      const entries = [{ kind: Entry_Kind.ITEM, entryId: "a" }];
      expect((await refusalOf(client.append({ entries }))).slice(0, 2)).toEqual([
        Code.Unauthenticated,
        "unauthenticated",
      ]);
      const stranger = client.append({ entries }, { headers: { authorization: "Bearer x" } });
      expect((await refusalOf(stranger))[1]).toBe("slot_unknown");
    }));

  const malformed: readonly (readonly [string, Entries])[] = [
    ["no entries", []],
    ["an entry without an id", [{ kind: Entry_Kind.ITEM, entryId: "" }]],
    ["an entry that is neither item nor state", [{ kind: Entry_Kind.UNSPECIFIED, entryId: "a" }]],
    ["a kind of tomorrow", [{ kind: 7 as Entry_Kind, entryId: "a" }]],
    ["an id that is too long", [{ kind: Entry_Kind.ITEM, entryId: "a".repeat(300) }]],
    ["an id no record keeps", [{ kind: Entry_Kind.ITEM, entryId: "a\u0000" }]],
  ];

  it.each(malformed)("has %s", async (_name, entries) =>
    withGate(async ({ client, record }) => {
      const refused = await refusalOf(client.append({ entries }, { headers }));
      expect(refused.slice(0, 2)).toEqual([Code.InvalidArgument, "invalid_request"]);
      expect(record.counts.appendTranscript).toBeUndefined();
    }),
  );

  it("is larger than a message may be", () =>
    withGate(async ({ log, client }) => {
      const body = Buffer.alloc(MESSAGE_BYTES_MAX + 1);
      const refused = await refusalOf(
        client.append({ entries: [{ kind: Entry_Kind.ITEM, entryId: "a", body }] }, { headers }),
      );
      expect(refused[0]).toBe(Code.ResourceExhausted);
      expect(await codeOf(log.append([{ ...entry("a"), body }]))).toBe("payload_too_large");
    }));

  it("fails inside: the code says so, the log has it, the text does not", () =>
    withGate(async ({ client, record, logged }) => {
      record.appendTranscript = () => Promise.reject(new Error("password=hunter2"));
      const refused = await refusalOf(
        client.append({ entries: [{ kind: Entry_Kind.ITEM, entryId: "a" }] }, { headers }),
      );
      expect(refused).toEqual([Code.Internal, "internal", "Something failed inside the platform."]);
      expect(logged.lines.filter((line) => line.level === "error")).toHaveLength(1);
    }));
});
