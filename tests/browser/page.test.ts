/** The page at `/` as a person uses it, in a real browser on a real platform. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, inject, it } from "vitest";
import { conversationWith, setStage, type Stage } from "../integration/platform/stage.ts";
import { until } from "../setup/until.ts";
import { Tab } from "./chromium.ts";

const SLOW = "[[sim:tokens 400]] [[sim:slow 50]] Tell me everything.";
const SHORT = "[[sim:tokens 12]] Tell me something.";

/** Loading an engine takes a loaded machine its time. */
const OFFERED_MS = 120_000;

const stack = new AsyncDisposableStack();
let stage: Stage;
let tab: Tab;

beforeAll(async () => {
  stage = await setStage(stack);
  stage.worker("langgraph");
  tab = stack.use(await Tab.open(inject("chromium")));
  const offered = async () => (await stage.client.runtimes()).some(({ available }) => available);
  await until("a worker that has loaded its engine", offered, OFFERED_MS);
  await conversationWith(stage.client, "langgraph");
  await tab.resize(1280, 800);
  await tab.goto(`${stage.served.url}/#key=${stage.apiKey}`);
}, 180_000);

afterEach(async ({ task }) => {
  // For whoever wants to see what a test saw.
  const folder = process.env.SIGNALBOX_SCREENSHOTS;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${task.name.replaceAll(/\W+/g, "-").slice(0, 60)}.png`), await tab.picture());
});

afterAll(() => stack.disposeAsync());

async function begin(): Promise<string> {
  const before = await tab.read<string>("location.hash");
  await tab.click("#begin button");
  return until("a new conversation in the address", async () => {
    const hash = await tab.read<string>("location.hash");
    if (hash === before) return null;
    const ready = await tab.read<boolean>(`!document.querySelector("#content").disabled`);
    return ready && /^#conversation=(cnv_\w+)$/.exec(hash)?.[1];
  });
}

async function say(text: string): Promise<void> {
  await tab.click("#content");
  await tab.type(text);
  await tab.enter();
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
  const shown = await tab.text("#timeline .answer");
  expect(answers.map(words)).toEqual([words(shown)]);
  expect(shown).not.toBe("");
}

const words = (text: string): string => text.replaceAll(/\s+/g, " ").trim();

it("takes the key out of the address, and shows an answer and the events it came in", async () => {
  await tab.untilText("#agent", /agent-langgraph/);
  expect(await tab.read("location.href")).not.toContain("sbx_");
  const conversation = await begin();
  await say("What is a lease?");
  await tab.untilText("#timeline .said", /What is a lease\?/);
  await tab.untilText("#timeline .state", /completed \(answered\)/);
  await answerIsWhole(conversation);
  const events = await tab.text("#events li.whole");
  for (const type of ["run.admitted", "turn.composed", "text.completed", "usage.recorded", "run.finished"]) {
    expect(events).toContain(type);
  }
  expect(await tab.text("#connection")).toBe("live");
});

it("shows what a paused run waits for, and Resume lets it go on", async () => {
  const conversation = await begin();
  await stage.client.stops.create({ kind: "pause", scope: "conversation", id: conversation });
  await say(SHORT);
  await tab.untilText("#waiting", /Waiting[\s\S]*operator/);
  await tab.click("#waiting button");
  await tab.untilText("#timeline .state", /completed \(answered\)/);
  await until("nothing to wait for", () => tab.read<boolean>(`document.querySelector("#waiting").hidden`));
});

it("cancels the run that answers, and keeps what was said of it", async () => {
  const conversation = await begin();
  await say(SLOW);
  await tab.untilText("#timeline .answer", /\w+ \w+/);
  await tab.click("#cancel");
  await tab.untilText("#timeline .state", /cancelled \(user cancel\)/);
  expect((await latest(conversation)).status).toBe("cancelled");
  expect(await tab.text("#timeline .answer")).not.toBe("");
  expect(await tab.read(`document.querySelector("#cancel").hidden`)).toBe(true);
});

it("asks what a message does to a run that is active: refused, in line, or in its place", async () => {
  const conversation = await begin();
  await say(SLOW);
  await tab.untilText("#timeline .answer", /\w+/);
  await tab.choose("#busy", "reject");
  await say("Refused, please.");
  await tab.untilText("#trouble", /conversation_busy/);
  expect(await tab.read(`document.querySelector("#content").value`)).toBe("Refused, please.");
  await tab.choose("#busy", "enqueue");
  await tab.enter();
  await tab.untilText("#timeline .state", /queued, 1 before it/);
  await tab.choose("#busy", "interrupt");
  await say(SHORT);
  await tab.untilText("#timeline article:nth-child(1) .state", /cancelled \(superseded\)/);
  await tab.untilText("#timeline article:nth-child(3) .state", /completed \(answered\)/);
  expect((await latest(conversation)).requested).toMatchObject({ whenBusy: "interrupt" });
  await tab.choose("#busy", "");
});

it("goes on with an answer after the page was loaded again", async () => {
  const conversation = await begin();
  await say("[[sim:tokens 80]] [[sim:slow 50]] Tell me more.");
  await tab.untilText("#timeline .answer", /\w+ \w+/);
  await tab.reload();
  await tab.untilText("#timeline .said", /Tell me more/);
  const first = await tab.untilText("#timeline .answer", /\w+ \w+/);
  await until("more of the answer", async () => (await tab.text("#timeline .answer")).length > first.length);
  await tab.untilText("#timeline .state", /completed \(answered\)/, 60_000);
  await answerIsWhole(conversation);
  expect((await stage.client.runs.list({ conversation })).data).toHaveLength(1);
});

it("says that the conversation is gone when it was deleted", async () => {
  const conversation = await begin();
  await stage.client.conversations.open(conversation).delete();
  await tab.untilText("#trouble", /not_found/);
});

it("fits a narrow screen: nothing beside it, and a message can be written", async () => {
  await tab.resize(360, 740);
  await begin();
  const widest = await tab.read<number>("document.documentElement.scrollWidth");
  expect(widest).toBeLessThanOrEqual(360);
  await say(SHORT);
  await tab.untilText("#timeline .state", /completed \(answered\)/);
});

it("never did what a browser complains about", () => {
  expect(tab.complaints).toEqual([]);
});
