/** What a provider's cache can serve: the same bytes from turn to turn, whichever worker sends them. */
import { expect, test } from "vitest";
import type { WireRequest } from "./claude-sdk/model-double.ts";
import { makeWorld, say } from "./claude-sdk/world.ts";

/** Marks of the cache move with the end of the conversation; they are no part of what is read. */
function readBy({ body }: WireRequest): { readonly prefix: string; readonly messages: readonly string[] } {
  const text = (value: unknown): string =>
    JSON.stringify(value, (key, each: unknown) => (key === "cache_control" ? undefined : each));
  return { prefix: text([body.model, body.system, body.tools]), messages: body.messages.map(text) };
}

test("two workers send the same prompt for the same conversation, and nothing of their own places", async () => {
  await using first = await makeWorld(() => ({ blocks: [{ text: ["Yes."] }] }));
  await using second = await makeWorld(() => ({ blocks: [{ text: ["Still."] }] }));
  const { session, transcript } = await first.open();
  await say(session, "Are you there?", { turnId: "trn_1" });
  await session[Symbol.asyncDispose]();
  const again = await second.open({ rung: "native", leaf: transcript.leaf, transcript, generation: 2 });
  await say(again.session, "And now?", { turnId: "trn_2" });

  const [one, two] = [readBy(first.model.requests.at(-1)!), readBy(second.model.requests.at(-1)!)];
  expect(two.prefix).toBe(one.prefix);
  expect(two.messages.slice(0, one.messages.length)).toEqual(one.messages);
  expect(two.messages.at(-1)).toBe(JSON.stringify({ role: "user", content: [{ type: "text", text: "And now?" }] }));
  for (const { scratchDir } of [first, second]) {
    expect(JSON.stringify(two)).not.toContain(scratchDir);
  }
});
