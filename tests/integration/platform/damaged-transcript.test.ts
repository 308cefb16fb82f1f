/**
 * A transcript that is not what the history says is never continued: every worker here begins with an empty disk, so it
 * reads what is stored. Each message is answered, the rung is told, and the model is asked with what people see.
 */
import { createHash } from "node:crypto";
import type { PlatformEvent } from "@signalbox/contract";
import type { ConversationHandle } from "@signalbox/client";
import { afterEach, expect, test } from "vitest";
import { auditOf, conversationWith, rowsOf, setStage, type Stage } from "./stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

interface Entry {
  readonly position: number;
  readonly kind: string;
  readonly stream: string;
  readonly entry_id: string;
  readonly body: Buffer;
}

type Damage = (entries: readonly Entry[]) => readonly Entry[];

const mainItems = (entries: readonly Entry[]): readonly Entry[] =>
  entries.filter((entry) => entry.stream === "" && entry.kind === "item");

const hole: Damage = (entries) => {
  const items = mainItems(entries);
  return entries.filter((entry) => entry !== items[Math.floor(items.length / 2)]);
};

const tornLastLine: Damage = (entries) =>
  entries.map((entry, place) =>
    place === entries.length - 1 ? { ...entry, body: entry.body.subarray(0, entry.body.length >> 1) } : entry,
  );

function changedRow(entry: Entry, change: object): Buffer {
  return Buffer.from(JSON.stringify({ ...(JSON.parse(entry.body.toString("utf8")) as object), ...change }));
}

const STRANGER = "00000000-0000-4000-8000-000000000000";

/** The last exchange hangs from a row that does not exist. */
const danglingParent: Damage = (entries) => {
  const asked = mainItems(entries).findLast((entry) => entry.body.includes('"type":"user"'));
  return entries.map((entry) =>
    entry === asked ? { ...entry, body: changedRow(entry, { parentUuid: STRANGER }) } : entry,
  );
};

/** Two processes answered the same row: a second branch beside the last answer. */
const forkedSession: Damage = (entries) => {
  const answered = mainItems(entries).findLast((entry) => entry.body.includes('"type":"assistant"'));
  return entries.flatMap((entry) =>
    entry === answered
      ? [{ ...entry, entry_id: STRANGER, body: changedRow(entry, { uuid: STRANGER }) }, entry]
      : [entry],
  );
};

const ON: Readonly<Record<string, readonly (Damage | null)[]>> = {
  langgraph: [null, hole, tornLastLine],
  claude_sdk: [null, forkedSession, danglingParent, hole, tornLastLine],
};

/** Writes what an engine could have written so: the digests agree, and only who reads the rows can tell. */
async function damage(stage: Stage, { id }: ConversationHandle, change: Damage): Promise<void> {
  const where = "from signalbox.transcript_entry where conversation_id = $1";
  const before = await rowsOf<Entry & { readonly tenant_id: string; readonly generation: number }>(
    stage,
    `select * ${where} order by position`,
    [id],
  );
  const [first] = before;
  if (first === undefined) throw new Error("there is no transcript");
  const after = change(before);
  await rowsOf(stage, `delete ${where}`, [id]);
  let chain: Buffer = Buffer.alloc(32);
  for (const [place, { kind, stream, entry_id: entryId, body }] of after.entries()) {
    const digest = createHash("sha256").update(body).digest();
    if (kind === "item" && stream === "") {
      chain = createHash("sha256").update(chain).update(entryId).update(digest).digest();
    }
    await rowsOf(
      stage,
      `insert into signalbox.transcript_entry (tenant_id, conversation_id, position, generation, stream, entry_id, kind,
                                               body, digest) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
      [first.tenant_id, id, place + 1, first.generation, stream, entryId, kind, body, digest],
    );
  }
  await rowsOf(stage, "update signalbox.conversation set leaf_digest = $2, leaf_position = $3 where id = $1", [
    id,
    chain,
    after.length,
  ]);
}

interface WireMessage {
  readonly role: string;
  readonly content: string | readonly { readonly type: string; readonly text?: string }[];
}

/** Of what people see, what the model was asked with last, in its order. */
function toldModel(stage: Stage, seen: readonly { readonly role: string; readonly content: string }[]): string[] {
  // What an engine sends; the sim has checked it.
  const body = stage.sim.modelRequests().at(-1)?.body as { readonly messages: readonly WireMessage[] } | undefined;
  const messages = body?.messages ?? [];
  return messages.flatMap(({ role, content }) =>
    (typeof content === "string" ? [{ type: "text", text: content }] : content).flatMap(({ text = "" }) => {
      const said = seen.find((each) => each.role === role && text.trim() === each.content);
      return said === undefined ? [] : [said.content];
    }),
  );
}

test.each(Object.entries(ON))(
  "%s goes on from a whole transcript alone",
  { timeout: 240_000 },
  async (runtime, damages) => {
    const stage = await setStage(stack);
    let worker = stage.worker(runtime);
    const conversation = await conversationWith(stage.client, runtime);
    const rungs: string[] = ["fresh"];
    expect(await (await conversation.send("Fact 0: the lamp is green.")).result()).toMatchObject({
      outcome: "completed",
    });
    for (const [place, change] of damages.entries()) {
      const what = change?.name ?? "nothing";
      await worker.kill("SIGKILL");
      if (change !== null) await damage(stage, conversation, change);
      worker = stage.worker(runtime);
      const run = await conversation.send(`Fact ${place + 1}: the lamp is green.`);
      expect(await run.result(), `after ${what}`).toMatchObject({ outcome: "completed" });
      const rung = change === null ? "native" : "rebuilt";
      rungs.push(rung);
      expect((await stage.client.runs.get(run.id)).rung, `after ${what}`).toBe(rung);
      const seen: { readonly role: string; readonly content: string }[] = [];
      for await (const { role, content } of conversation.messages()) seen.push({ role, content });
      expect(toldModel(stage, seen), `after ${what}`).toEqual(seen.slice(0, -1).map(({ content }) => content));
    }
    const log: PlatformEvent[] = [];
    for await (const event of conversation.events({ follow: false })) log.push(event);
    expect(log.flatMap((event) => (event.type === "turn.composed" ? [event.rung] : [])).at(-1)).toBe("rebuilt");
    expect((await auditOf(stage, "message_completed")).map(({ facts }) => facts.rung)).toEqual(rungs);
  },
);
