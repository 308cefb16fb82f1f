/** The page at `/` as a person uses it, in a real browser on a real platform. */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject, it } from "vitest";
import { conversationWith, setStage, type Stage } from "../integration/platform/stage.ts";
import { until } from "../setup/until.ts";
import { openPage, type OpenPage } from "./open-page.ts";

const SLOW = "[[sim:tokens 400]] [[sim:slow 50]] Tell me everything.";
const SHORT = "[[sim:tokens 12]] Tell me something.";

/** Loading an engine takes a loaded machine its time. */
const OFFERED_MS = 120_000;

const stack = new AsyncDisposableStack();
let stage: Stage;
let opened: OpenPage;
let page: Page;

beforeAll(async () => {
  stage = await setStage(stack);
  stage.worker("langgraph");
  opened = stack.use(await openPage(inject("chromium")));
  page = opened.page;
  const offered = async () => (await stage.client.runtimes()).some(({ available }) => available);
  await until("a worker that has loaded its engine", offered, OFFERED_MS);
  await conversationWith(stage.client, "langgraph");
  await page.goto(`${stage.served.url}/#key=${stage.apiKey}`);
}, 180_000);

afterEach(async ({ task }) => {
  // For whoever wants to see what a test saw.
  const folder = process.env.SIGNALBOX_SCREENSHOTS;
  if (folder === undefined) return;
  await page.screenshot({ path: join(folder, `${task.name.replaceAll(/\W+/g, "-").slice(0, 60)}.png`) });
});

afterAll(() => stack.disposeAsync());

async function begin(): Promise<string> {
  const before = new URL(page.url()).hash;
  await page.click("#begin button");
  return until("a new conversation in the address", async () => {
    const { hash } = new URL(page.url());
    if (hash === before || (await page.isDisabled("#content"))) return null;
    return /^#conversation=(cnv_\w+)$/.exec(hash)?.[1];
  });
}

async function say(text: string): Promise<void> {
  await page.fill("#content", text);
  await page.press("#content", "Enter");
}

/** What a person sees there, all of it; empty where there is nothing to see. */
async function shown(selector: string): Promise<string> {
  return (await page.locator(selector).allInnerTexts()).join("\n");
}

async function untilShown(selector: string, expected: RegExp, boundMs = 30_000): Promise<string> {
  let seen = "";
  try {
    return await until(selector, async () => expected.test((seen = await shown(selector))) && seen, boundMs);
  } catch (thrown) {
    throw new Error(`${selector} says ${JSON.stringify(seen.slice(-400))}`, { cause: thrown });
  }
}

async function latest(conversation: string) {
  const { data } = await stage.client.runs.list({ conversation, order: "desc" });
  return data[0]!;
}

/** What stands on the page is what the history says. */
async function answerIsWhole(conversation: string): Promise<void> {
  const answers: string[] = [];
  for await (const { role, content } of stage.client.conversations.open(conversation).messages()) {
    if (role === "assistant") answers.push(content);
  }
  const answer = await shown("#timeline .answer");
  expect(answers.map(words)).toEqual([words(answer)]);
  expect(answer).not.toBe("");
}

const words = (text: string): string => text.replaceAll(/\s+/g, " ").trim();

it("takes the key out of the address, and shows an answer and the events it came in", async () => {
  await untilShown("#agent", /agent-langgraph/);
  expect(page.url()).not.toContain("sbx_");
  const conversation = await begin();
  await say("What is a lease?");
  await untilShown("#timeline .said", /What is a lease\?/);
  await untilShown("#timeline .state", /completed \(answered\)/);
  await answerIsWhole(conversation);
  const events = await shown("#events li.whole");
  for (const type of ["run.admitted", "turn.composed", "text.completed", "usage.recorded", "run.finished"]) {
    expect(events).toContain(type);
  }
  expect(await shown("#connection")).toBe("live");
});

it("shows what a paused run waits for, and Resume lets it go on", async () => {
  const conversation = await begin();
  await stage.client.stops.create({ kind: "pause", scope: "conversation", id: conversation });
  await say(SHORT);
  await untilShown("#waiting", /Waiting[\s\S]*operator/);
  await page.click("#waiting button");
  await untilShown("#timeline .state", /completed \(answered\)/);
  await page.waitForSelector("#waiting", { state: "hidden" });
});

it("cancels the run that answers, and keeps what was said of it", async () => {
  const conversation = await begin();
  await say(SLOW);
  await untilShown("#timeline .answer", /\w+ \w+/);
  await page.click("#cancel");
  await untilShown("#timeline .state", /cancelled \(user cancel\)/);
  expect((await latest(conversation)).status).toBe("cancelled");
  expect(await shown("#timeline .answer")).not.toBe("");
  expect(await page.isHidden("#cancel")).toBe(true);
});

it("asks what a message does to a run that is active: refused, in line, or in its place", async () => {
  const conversation = await begin();
  await say(SLOW);
  await untilShown("#timeline .answer", /\w+/);
  await page.selectOption("#busy", "reject");
  await say("Refused, please.");
  await untilShown("#trouble", /conversation_busy/);
  expect(await page.inputValue("#content")).toBe("Refused, please.");
  await page.selectOption("#busy", "enqueue");
  await page.press("#content", "Enter");
  await untilShown("#timeline .state", /queued, 1 before it/);
  await page.selectOption("#busy", "interrupt");
  await say(SHORT);
  await untilShown("#timeline article:nth-child(1) .state", /cancelled \(superseded\)/);
  await untilShown("#timeline article:nth-child(3) .state", /completed \(answered\)/);
  expect((await latest(conversation)).requested).toMatchObject({ whenBusy: "interrupt" });
  await page.selectOption("#busy", "");
});

it("goes on with an answer after the page was loaded again", async () => {
  const conversation = await begin();
  await say("[[sim:tokens 80]] [[sim:slow 50]] Tell me more.");
  await untilShown("#timeline .answer", /\w+ \w+/);
  await page.reload();
  await untilShown("#timeline .said", /Tell me more/);
  const first = await untilShown("#timeline .answer", /\w+ \w+/);
  await until("more of the answer", async () => (await shown("#timeline .answer")).length > first.length);
  await untilShown("#timeline .state", /completed \(answered\)/, 60_000);
  await answerIsWhole(conversation);
  expect((await stage.client.runs.list({ conversation })).data).toHaveLength(1);
});

it("cancels also after the page was loaded again", async () => {
  const conversation = await begin();
  await say(SLOW);
  await untilShown("#timeline .answer", /\w+ \w+/);
  await page.reload();
  await untilShown("#timeline .answer", /\w+ \w+/);
  await page.click("#cancel");
  await untilShown("#timeline .state", /cancelled \(user cancel\)/);
  expect((await latest(conversation)).status).toBe("cancelled");
});

it("says that the conversation is gone when it was deleted", async () => {
  const conversation = await begin();
  await stage.client.conversations.open(conversation).delete();
  await untilShown("#trouble", /not_found/);
});

it("fits a narrow screen: nothing beside it, and a message can be written", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  await begin();
  const widest = await page.evaluate("document.documentElement.scrollWidth");
  expect(widest).toBeLessThanOrEqual(360);
  await say(SHORT);
  await untilShown("#timeline .state", /completed \(answered\)/);
});

it("never did what a browser complains about", () => {
  expect(opened.complaints).toEqual([]);
});
