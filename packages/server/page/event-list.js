/** The raw events as they arrive: one line each, the whole of it when opened. */
import { element, keepEnd } from "./element.js";

/** @typedef {import("@signalbox/contract").PlatformEvent} PlatformEvent */

/** Older lines are dropped, so that a long conversation does not fill the tab. */
const LINES_LIMIT = 1_000;

export class EventList {
  /** @type {HTMLElement} */
  #list;

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#list = list;
  }

  clear() {
    this.#list.replaceChildren();
  }

  /** @param {PlatformEvent} event */
  add(event) {
    keepEnd(this.#list, () => {
      this.#list.append(lineOf(event));
      if (this.#list.childElementCount > LINES_LIMIT) this.#list.firstElementChild?.remove();
    });
  }
}

/** @param {PlatformEvent} event */
function lineOf(event) {
  const summary = element("summary", {}, [
    element("span", { text: event.sequence === null ? "·" : String(event.sequence) }),
    element("b", { text: event.type }),
    element("i", { text: ` ${digestOf(event)}` }),
  ]);
  const whole = element("details", {}, [summary]);
  // Written out when it is looked at: most events never are.
  whole.addEventListener("toggle", () => whole.append(element("pre", { text: JSON.stringify(event, null, 2) })), {
    once: true,
  });
  return element("li", { class: event.type.endsWith(".delta") ? "delta" : "whole" }, [whole]);
}

/** @param {PlatformEvent} event */
function digestOf(event) {
  switch (event.type) {
    case "text.delta":
    case "text.completed":
    case "thinking.delta":
    case "thinking.completed":
      // The parts of a text that is whole are kept without it.
      return event.text === "" ? "" : JSON.stringify(event.text.slice(0, 80));
    case "tool.started":
      return event.title;
    case "tool.finished":
      return `${event.title}: ${event.state}`;
    case "run.phase":
      return event.phase;
    case "run.finished":
      return `${event.outcome} (${event.reason})`;
    case "hold.opened":
      return event.kind;
    default:
      return "";
  }
}
