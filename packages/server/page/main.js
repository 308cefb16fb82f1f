/**
 * A page to try the platform with: a key, the agents, one conversation at a time and what happens in it. It is a caller
 * like any other: everything it shows and does goes through the API, with the key that was given.
 */
import { byId, element } from "./element.js";
import { EventList } from "./event-list.js";
import { Holds } from "./holds.js";
import { PlatformApi, Refusal } from "./platform-api.js";
import { Timeline } from "./timeline.js";

/** @typedef {import("@signalbox/contract").Agent} Agent */
/** @typedef {import("@signalbox/contract").Conversation} Conversation */
/** @typedef {import("@signalbox/contract").Info} Info */
/** @typedef {import("@signalbox/contract").Message} Message */
/** @typedef {import("@signalbox/contract").PlatformEvent} PlatformEvent */
/**
 * @template T
 * @typedef {{ readonly data: readonly T[], readonly nextCursor: string | null }} Page
 */

const KEY_NAME = "signalbox key";
const HISTORY_PAGES = 10;
const SETTLE_MS = 150;

const trouble = byId("trouble", HTMLElement);
const agents = byId("agent", HTMLSelectElement);
const list = byId("conversations", HTMLUListElement);
const content = byId("content", HTMLTextAreaElement);
const busy = byId("busy", HTMLSelectElement);
const sendButton = byId("send", HTMLButtonElement);
const cancelButton = byId("cancel", HTMLButtonElement);
const words = byId("words", HTMLInputElement);
const key = byId("key", HTMLInputElement);
const timeline = new Timeline(byId("timeline", HTMLElement));
const events = new EventList(byId("events", HTMLElement));

/** @type {PlatformApi | null} */
let api = null;
/** @type {{ readonly id: string, readonly holds: Holds, readonly left: AbortController } | null} */
let open = null;

/**
 * Runs what a person asked for; what goes wrong is said at the top of the page.
 * @param {() => Promise<unknown>} work
 * @param {() => void} [after]
 */
function attempt(work, after = () => undefined) {
  trouble.hidden = true;
  work().finally(after).catch(explain);
}

/** @param {unknown} thrown */
function explain(thrown) {
  if (thrown instanceof Refusal && thrown.status === 401) enter();
  const code = thrown instanceof Refusal ? ` (${thrown.code})` : "";
  trouble.textContent = `${thrown instanceof Error ? thrown.message : String(thrown)}${code}`;
  trouble.hidden = false;
}

function platform() {
  if (api === null) throw new Error("Give a key first.");
  return api;
}

/** What the address brings along is taken out of it at once: a key does not stay where it is shown or kept. */
function fromAddress() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("key");
  if (given !== null) {
    sessionStorage.setItem(KEY_NAME, given);
    history.replaceState(null, "", location.pathname);
  }
  return { conversation: fragment.get("conversation"), brought: given !== null };
}

/** Asks for a key; the one that was there is forgotten. */
function enter() {
  leave();
  api = null;
  sessionStorage.removeItem(KEY_NAME);
  byId("desk", HTMLElement).hidden = true;
  byId("forget", HTMLElement).hidden = true;
  byId("entry", HTMLElement).hidden = false;
  byId("platform", HTMLElement).textContent = "";
  list.replaceChildren();
  key.focus();
}

/** @param {string | null} conversationId */
async function begin(conversationId) {
  const kept = sessionStorage.getItem(KEY_NAME);
  if (kept === null) return enter();
  api = new PlatformApi(kept);
  /** @type {Info} */
  const info = await api.get("/v1/info");
  const simulated = info.providers.some((provider) => provider.simulated) ? " · a simulated model" : "";
  byId("platform", HTMLElement).textContent = `${info.version}${simulated}`;
  byId("entry", HTMLElement).hidden = true;
  byId("desk", HTMLElement).hidden = false;
  byId("forget", HTMLElement).hidden = false;
  await Promise.all([listAgents(), listConversations("")]);
  if (conversationId !== null) await openConversation(conversationId);
}

async function listAgents() {
  /** @type {Page<Agent>} */
  const page = await platform().get("/v1/agents?order=asc&limit=200");
  agents.replaceChildren(
    ...page.data.map((agent) => {
      const option = element("option", { text: `${agent.name} · ${agent.runtime}${agent.disabled ? " (off)" : ""}` });
      option.value = agent.name;
      option.disabled = agent.disabled;
      return option;
    }),
  );
  if (page.data.length === 0) throw new Error("There are no agents yet: make one with `signalbox agents create`.");
}

/** @param {string} asked */
async function listConversations(asked) {
  const query = new URLSearchParams({ limit: "50", ...(asked === "" ? {} : { q: asked }) });
  /** @type {Page<Conversation>} */
  const page = await platform().get(`/v1/conversations?${query}`);
  list.replaceChildren(...page.data.map((conversation) => element("li", {}, [lineOf(conversation)])));
}

/** @param {Conversation} conversation */
function lineOf(conversation) {
  const { id, title, agent, activeRun, createdAt } = conversation;
  const status = activeRun === null ? "" : ` · ${activeRun.status}`;
  const line = element("button", {}, [
    element("span", { text: title ?? agent.name }),
    element("span", { class: "quiet", text: `${new Date(createdAt).toLocaleString()}${status}` }),
  ]);
  line.type = "button";
  line.title = id;
  line.dataset.id = id;
  line.setAttribute("aria-current", String(open?.id === id));
  line.addEventListener("click", () => attempt(() => openConversation(id)));
  return line;
}

function leave() {
  open?.left.abort();
  open = null;
  timeline.clear();
  events.clear();
  byId("waiting", HTMLElement).hidden = true;
  content.disabled = true;
  showWhatCanBeDone();
}

/** @param {string} id */
async function openConversation(id) {
  /** @type {Conversation} */
  const conversation = await platform().get(`/v1/conversations/${encodeURIComponent(id)}`);
  leave();
  const left = new AbortController();
  const here = { id, left, holds: new Holds(byId("waiting", HTMLElement), { api: platform(), id, attempt }) };
  open = here;
  history.replaceState(null, "", `#conversation=${id}`);
  byId("name", HTMLElement).textContent = conversation.title ?? conversation.agent.name;
  byId("address", HTMLElement).textContent = id;
  for (const line of list.querySelectorAll("button")) line.setAttribute("aria-current", String(line.dataset.id === id));
  await showHistory(here);
  if (open !== here) return;
  content.disabled = false;
  content.focus();
  showWhatCanBeDone();
  // Goes on for as long as the conversation is open.
  attempt(() => follow(here));
}

/** @param {NonNullable<typeof open>} here */
async function showHistory(here) {
  /** @type {string | null} */
  let cursor = null;
  for (let pages = 0; pages < HISTORY_PAGES; pages += 1) {
    const query = new URLSearchParams({ order: "asc", limit: "200", ...(cursor === null ? {} : { cursor }) });
    /** @type {Page<Message>} */
    const page = await platform().get(`/v1/conversations/${here.id}/messages?${query}`);
    if (open !== here) return;
    for (const message of page.data) timeline.message(message);
    cursor = page.nextCursor;
    if (cursor === null) return;
  }
}

/** @param {NonNullable<typeof open>} here */
async function follow(here) {
  const connection = byId("connection", HTMLElement);
  const tell = (/** @type {string} */ state) => {
    if (open === here) connection.textContent = state;
  };
  await here.holds.look();
  for await (const event of platform().events(here.id, { signal: here.left.signal, tell })) {
    if (open !== here) return;
    events.add(event);
    timeline.apply(event);
    if (event.type.startsWith("hold.") || event.type === "run.finished") here.holds.lookSoon();
    if (event.type === "run.finished") refreshSoon();
    if (event.type === "run.started" && !timeline.complete) await showHistory(here);
    showWhatCanBeDone();
  }
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let refreshing;

/** Many events together ask for one look. */
function refreshSoon() {
  clearTimeout(refreshing);
  refreshing = setTimeout(() => {
    listConversations(wordsAsked()).catch(explain);
  }, SETTLE_MS);
}

function wordsAsked() {
  const asked = words.value.trim();
  return asked.startsWith("cnv_") ? "" : asked;
}

function showWhatCanBeDone() {
  sendButton.disabled = open === null || content.value.trim() === "";
  cancelButton.hidden = open === null || timeline.openRun === null;
}

async function send() {
  const text = content.value;
  const here = open;
  if (here === null || text.trim() === "") return;
  sendButton.disabled = true;
  /** @type {import("@signalbox/contract").AcceptedMessage} */
  const accepted = await platform().post(`/v1/conversations/${here.id}/messages`, {
    content: text,
    ...(busy.value === "" ? {} : { whenBusy: busy.value }),
  });
  content.value = "";
  if (open === here) timeline.sent(accepted.run.id, text);
  showWhatCanBeDone();
}

/**
 * @param {string} id
 * @param {() => Promise<unknown>} work
 */
function onSubmit(id, work) {
  byId(id, HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(work, showWhatCanBeDone);
  });
}

onSubmit("entry", async () => {
  sessionStorage.setItem(KEY_NAME, key.value.trim());
  key.value = "";
  await begin(null);
});
onSubmit("begin", async () => {
  /** @type {Conversation} */
  const conversation = await platform().post("/v1/conversations", { agent: agents.value });
  await openConversation(conversation.id);
  await listConversations(wordsAsked());
});
onSubmit("find", async () => {
  const asked = words.value.trim();
  await (asked.startsWith("cnv_") ? openConversation(asked) : listConversations(asked));
});
onSubmit("compose", send);
content.addEventListener("input", showWhatCanBeDone);
content.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  attempt(send, showWhatCanBeDone);
});
cancelButton.addEventListener("click", () => {
  const runId = timeline.openRun;
  if (runId !== null) attempt(() => platform().post(`/v1/runs/${runId}/cancel`, {}));
});
byId("forget", HTMLElement).addEventListener("click", () => enter());
byId("deltas", HTMLInputElement).addEventListener("change", (event) => {
  const shown = event.target instanceof HTMLInputElement && event.target.checked;
  byId("events", HTMLElement).classList.toggle("nodeltas", !shown);
});
// A link with a key may be opened in a tab that has the page already.
addEventListener("hashchange", () => {
  const { conversation, brought } = fromAddress();
  if (brought || (conversation !== null && conversation !== open?.id)) attempt(() => begin(conversation));
});

attempt(() => begin(fromAddress().conversation));
