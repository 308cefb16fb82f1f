/** What an operator limits is refused with the time to come back at, and what was refused left nothing behind. */
import { playMessage } from "@signalbox/testkit";
import { afterEach, expect, test } from "vitest";
import { conversationWith, setStage } from "../platform/stage.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

test("messages a minute and open runs of a tenant are limited as the environment says", async () => {
  const environment = { SIGNALBOX_MESSAGES_PER_MINUTE: "3", SIGNALBOX_TENANT_RUNS: "4" };
  const stage = await setStage(stack, { environment });
  stage.scriptedWorker();
  const one = await conversationWith(stage.client, "scripted");
  const two = await conversationWith(stage.client, "scripted");
  const info = await stage.client.info();
  expect(info.limits).toMatchObject({ messagesPerMinutePerConversation: 3, openRunsPerTenant: 4 });
  const send = (conversation: string, content: string) =>
    fetch(`${stage.served.url}/v1/conversations/${conversation}/messages`, {
      method: "POST",
      headers: { authorization: `Bearer ${stage.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ content }),
    });
  const busy = playMessage([{ hang: "until_interrupted" }]);
  for (const content of [busy, "2", "3"]) expect((await send(one.id, content)).status).toBe(202);
  const tooFast = await send(one.id, "4");
  expect(tooFast.status).toBe(429);
  const afterSeconds = Number(tooFast.headers.get("retry-after"));
  expect(afterSeconds).toBeGreaterThan(0);
  expect(afterSeconds).toBeLessThanOrEqual(20);
  expect(tooFast.headers.get("ratelimit-policy")).toBe('"messages-per-conversation";q=3;w=60');
  expect(tooFast.headers.get("ratelimit")).toBe(`"messages-per-conversation";r=0;t=${afterSeconds}`);
  expect(await tooFast.json()).toMatchObject({ code: "message_rate_exceeded", retryable: true, limit: 3 });

  expect((await send(two.id, busy)).status).toBe(202);
  const tooMany = await send(two.id, "2");
  expect([tooMany.status, tooMany.headers.get("ratelimit-policy")]).toEqual([429, '"open-runs-per-tenant";q=4']);
  expect(tooMany.headers.get("retry-after")).toMatch(/^[1-9]/);
  expect(await tooMany.json()).toMatchObject({ code: "too_many_runs", limit: 4 });
  expect((await two.get()).queue).toEqual([]);
  await stage.client.runs.cancel((await one.get()).queue[1]?.runId ?? "");
  expect((await send(two.id, "2")).status).toBe(202);
});
