/**
 * A conversation as people read it, made of its history and its events. An item grows by its parts, in the order of
 * their offsets; its closing event says what it is; what only ever came live goes when the run goes on without it.
 */
import { element, keepEnd } from "./element.js";

/** @typedef {import("@signalbox/contract").PlatformEvent} PlatformEvent */
/** @typedef {import("@signalbox/contract").Message} Message */
/** @typedef {Extract<PlatformEvent, { readonly text: string }>} TextEvent */
/** @typedef {Extract<PlatformEvent, { readonly type: "tool.started" | "tool.finished" }>} ToolEvent */
/** @typedef {Extract<PlatformEvent, { readonly type: "run.finished" }>} FinishedEvent */
/** @typedef {{ readonly element: HTMLElement, text: string, closed: boolean, durable: boolean }} Item */
/**
 * @typedef {object} Shown
 * @property {HTMLElement} block
 * @property {HTMLElement} said
 * @property {HTMLElement} body
 * @property {HTMLElement} state
 * @property {HTMLElement | null} kept the answer of the history, where no event tells it
 * @property {Map<string, Item>} items
 * @property {boolean} ended
 */

export class Timeline {
  /** @type {HTMLElement} */
  #root;
  /** @type {Map<string, Shown>} */
  #runs = new Map();

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  clear() {
    this.#runs.clear();
    this.#root.replaceChildren();
  }

  /** The run that was begun first among those that have not ended, or `null`. */
  get openRun() {
    for (const [runId, shown] of this.#runs) if (!shown.ended) return runId;
    return null;
  }

  /** Whether it is known what was asked in every run that is shown. */
  get complete() {
    return [...this.#runs.values()].every(({ said }) => !said.hidden);
  }

  /** @param {Message} message */
  message(message) {
    keepEnd(this.#root, () => {
      // What a fork began with has no run of its own here.
      const shown = this.#shown(message.runId ?? `history ${message.id}`);
      if (message.runId === null) shown.ended = true;
      if (message.role === "user") {
        shown.said.textContent = message.content;
        shown.said.hidden = false;
      } else if (shown.items.size === 0 && shown.kept === null) {
        shown.kept = element("div", { class: "answer", text: message.content });
        shown.body.append(shown.kept);
        shown.ended = true;
      }
    });
  }

  /**
   * What this page has just sent, before any event tells of it.
   * @param {string} runId
   * @param {string} text
   */
  sent(runId, text) {
    const shown = this.#shown(runId);
    shown.said.textContent = text;
    shown.said.hidden = false;
    this.#root.scrollTop = this.#root.scrollHeight;
  }

  /** @param {PlatformEvent} event */
  apply(event) {
    const { runId } = event;
    if (runId !== null) keepEnd(this.#root, () => applyTo(this.#shown(runId), event));
  }

  /**
   * @param {string} runId
   * @returns {Shown}
   */
  #shown(runId) {
    const known = this.#runs.get(runId);
    if (known !== undefined) return known;
    const said = element("div", { class: "said" });
    said.hidden = true;
    const body = element("div", { class: "run" });
    const state = element("div", { class: "state" });
    const block = element("article", { class: "run" }, [said, body, state]);
    const shown = { block, said, body, state, kept: null, items: new Map(), ended: false };
    this.#runs.set(runId, shown);
    this.#root.append(block);
    return shown;
  }
}

/**
 * @param {Shown} shown
 * @param {PlatformEvent} event
 */
function applyTo(shown, event) {
  switch (event.type) {
    case "text.delta":
    case "thinking.delta":
    case "text.completed":
    case "thinking.completed":
      return grow(shown, event);
    case "text.retracted":
      return shown.items.get(event.itemId)?.element.classList.add("retracted");
    case "tool.started":
    case "tool.finished":
      return showTool(shown, event);
    case "run.admitted":
      return tell(shown, "accepted");
    case "run.started":
      return tell(shown, event.attempt > 1 ? `answering with ${event.runtime}, attempt ${event.attempt}` : "answering");
    case "run.phase":
      return tell(shown, `${event.phase.replaceAll("_", " ")} …`);
    case "run.recovered":
      forgetUnrecorded(shown);
      return tell(shown, `taken over after ${event.cause.replaceAll("_", " ")}, attempt ${event.attempt}`, "warn");
    case "run.suspended":
      return tell(shown, `waiting: ${event.waitingFor.map(({ kind }) => kind).join(", ")}`, "warn");
    case "hold.opened":
      return tell(shown, `waits for a decision: ${event.kind}`, "warn");
    case "hold.decided":
      return tell(shown, `decided: ${event.decision}`);
    case "run.resumed":
      return tell(shown, "going on");
    case "queue.moved":
      return tell(shown, placeOf(event));
    case "run.finished":
      return end(shown, event);
    default:
      // What else there is stands in the event list.
      return undefined;
  }
}

/** @param {Extract<PlatformEvent, { readonly type: "queue.moved" }>} event */
function placeOf(event) {
  if (event.mergedInto !== undefined) return "taken in by the run before it";
  return event.position === 0 ? "next" : `queued, ${event.position} before it`;
}

/**
 * @param {Shown} shown
 * @param {string} text
 * @param {"" | "bad" | "warn"} [tone]
 */
function tell(shown, text, tone = "") {
  shown.state.textContent = text;
  shown.state.className = `state ${tone}`;
}

/**
 * @param {Shown} shown
 * @param {TextEvent} event
 */
function grow(shown, event) {
  shown.kept?.remove();
  shown.kept = null;
  const item = itemOf(shown, event.itemId, event.type.startsWith("thinking") ? "thinking" : "answer");
  if (event.sequence !== null) item.durable = true;
  if (!("offset" in event)) {
    item.text = event.text;
    item.closed = true;
    item.element.textContent = item.text;
    return;
  }
  if (item.closed) return;
  if (event.offset > item.text.length) {
    // A live part that came too early comes again from the record; a recorded one begins where the record still does.
    if (event.sequence === null) return;
    item.text = " ".repeat(event.offset);
  }
  const fresh = event.text.slice(item.text.length - event.offset);
  if (fresh === "") return;
  item.text += fresh;
  item.element.append(document.createTextNode(fresh));
}

/**
 * @param {Shown} shown
 * @param {string} itemId
 * @param {"answer" | "thinking"} kind
 * @returns {Item}
 */
function itemOf(shown, itemId, kind) {
  const known = shown.items.get(itemId);
  if (known !== undefined) return known;
  const item = { element: element("div", { class: kind }), text: "", closed: false, durable: false };
  shown.items.set(itemId, item);
  shown.body.append(item.element);
  return item;
}

/** @param {Shown} shown */
function forgetUnrecorded(shown) {
  for (const [itemId, item] of shown.items) {
    if (item.durable || item.closed) continue;
    item.element.remove();
    shown.items.delete(itemId);
  }
}

/** How a call stands, by the colour of its mark. */
const TONES = /** @type {Readonly<Record<string, string>>} */ ({
  succeeded: "good",
  failed: "bad",
  denied: "bad",
  unknown: "warn",
});

/**
 * @param {Shown} shown
 * @param {ToolEvent} event
 */
function showTool(shown, event) {
  const finished = event.type === "tool.finished" ? event : null;
  const state = finished === null ? "running" : finished.state.replaceAll("_", " ");
  const head = element("div", {}, [
    element("strong", { text: event.title }),
    element("code", { class: "quiet", text: event.tool }),
    element("span", { class: event.effect === "read" ? "mark" : "mark warn", text: event.effect }),
    element("span", { class: `mark ${TONES[finished?.state ?? ""] ?? ""}`, text: state }),
  ]);
  if (finished !== null) head.append(element("span", { class: "quiet", text: `${finished.elapsedMs} ms` }));
  const item = shown.items.get(event.toolCallId) ?? itemOf(shown, event.toolCallId, "answer");
  item.closed = true;
  if ("argumentsSummary" in event) item.text = event.argumentsSummary;
  const details = [item.text, finished?.denial ?? "", finished?.resultSummary ?? ""].filter((text) => text !== "");
  item.element.className = "tool";
  item.element.replaceChildren(head, ...details.map((text) => element("pre", { text })));
}

/**
 * @param {Shown} shown
 * @param {FinishedEvent} event
 */
function end(shown, event) {
  shown.ended = true;
  forgetUnrecorded(shown);
  const why = event.error === null ? event.reason.replaceAll("_", " ") : `${event.error.code}: ${event.error.detail}`;
  const tone = event.outcome === "failed" ? "bad" : "warn";
  tell(shown, `${event.outcome.replaceAll("_", " ")} (${why})`, event.outcome === "completed" ? "" : tone);
}
