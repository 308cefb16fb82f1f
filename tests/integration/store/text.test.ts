import type { RunId } from "@signalbox/contract";
import { expect } from "vitest";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { MessageQueries } from "../../../packages/server/src/store/queries/message-queries.ts";
import { RunQueries } from "../../../packages/server/src/store/queries/run-queries.ts";
import { proves } from "../../setup/proves.ts";
import { ACTOR, conclusionOf, finalizationOf, newId, proposalOf, startedRun, TURN } from "./record-parts.ts";
import { RecordWorld } from "./record-world.ts";

/** Text no database takes as it is, and text that only looks like it. */
const HOSTILE = [
  "a\u0000b",
  "\ud83d x",
  "x \ude80\ud83d y",
  "ok \ud83d\ude80",
  "literal \\u0000",
  "\ud800",
  "\ufeffe\u0301\u2028\u202e\uffff",
];
const CLEAN = HOSTILE.map((text) => text.toWellFormed().replaceAll("\u0000", "\ufffd"));

proves("INV-22", {
  title: "any text goes in everywhere, comes out well-formed, and the conversation goes on",
  sabotages: ["escapes_are_taken_for_text"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using world = await RecordWorld.open();
    if (sabotage === "escapes_are_taken_for_text") {
      await world.sabotage(
        "admit_message",
        "'user', p_text, p_metadata",
        "'user', replace(p_text, chr(92) || 'u0000', ''), p_metadata",
      );
    }
    const process = await world.process();
    const place = await world.conversation();
    const viewer = { tenantId: place.tenantId, user: null };
    for (const [index, text] of HOSTILE.entries()) {
      const clean = CLEAN[index]!;
      const { admission, ownership } = await startedRun(process, place, {
        text,
        metadata: { [text]: text },
        actor: { ...ACTOR, roles: [text] },
        requested: { said: text },
        traceId: text,
        idempotency: { key: `${index} ${text}`, bodyHash: text },
      });
      const bound = await process.bind(ownership);
      const proposal = proposalOf({ argumentsJson: JSON.stringify({ text }) });
      await process.propose(bound, [proposal]);
      const { toolCallId } = await process.openTool(bound, proposal);
      const result = { resultJson: JSON.stringify({ text }), resultSummary: text, errorCode: null };
      await process.gates.settleToolCall({ toolCallId, state: "succeeded", ...result });
      await process.gates.appendTranscript(bound.tokenHash, [
        { kind: "item", entryId: text, stream: text, body: Buffer.from(text, "utf16le") },
      ]);
      await ownership.append([{ type: "text.completed", itemId: newId("item"), revision: 1, data: { text } }], TURN);
      await ownership.seal(conclusionOf(ownership, { answer: text, stopReason: text }));
      await ownership.finish(
        finalizationOf({
          answer: { messageId: newId("message"), text, partial: false },
          error: { code: "internal", detail: text, fault: "platform", retryable: false },
        }),
      );
      await shows({ process, viewer, conversationId: place.conversationId, runId: admission.runId, clean });
    }
  },
});

interface Shown {
  readonly process: Awaited<ReturnType<RecordWorld["process"]>>;
  readonly viewer: { readonly tenantId: string; readonly user: null };
  readonly conversationId: string;
  readonly runId: RunId;
  readonly clean: string;
}

async function shows({ process, viewer, conversationId, runId, clean }: Shown): Promise<void> {
  const messages = await new MessageQueries(process.tenants).list(viewer, conversationId, {
    limit: 2,
    cursor: null,
    order: "desc",
  });
  expect(
    messages.items.map((message) => message.text),
    "INV-22: history",
  ).toEqual([clean, clean]);
  expect(messages.items[1]!.metadata).toEqual({ [clean]: clean });
  const run = await new RunQueries(process.tenants).find(viewer, runId);
  expect(run?.requested).toEqual({ said: clean });
  expect(run?.error?.detail).toBe(clean);
  const events = await new EventQueries(process.pools.app).after(viewer, conversationId, {
    afterSequence: run!.cursor,
    limit: 100,
  });
  expect(events.flatMap((event) => (event.type === "text.completed" ? [event.text] : []))).toEqual([clean]);
  expect(events.flatMap((event) => (event.type === "tool.finished" ? [event.resultSummary] : []))).toEqual([clean]);
  expect(JSON.stringify(events).isWellFormed()).toBe(true);
}
