/** What the open conversation waits for. The API says it; events only say when to look again. */
import { element } from "./element.js";

/** @typedef {import("@signalbox/contract").Hold} Hold */
/** @typedef {import("./platform-api.js").PlatformApi} PlatformApi */
/** @typedef {(work: () => Promise<unknown>) => void} Attempt */

const SETTLE_MS = 150;

export class Holds {
  /** @type {HTMLElement} */
  #root;
  /** @type {{ readonly api: PlatformApi, readonly id: string, readonly attempt: Attempt }} */
  #place;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #looking;

  /**
   * @param {HTMLElement} root
   * @param {{ readonly api: PlatformApi, readonly id: string, readonly attempt: Attempt }} place
   */
  constructor(root, place) {
    this.#root = root;
    this.#place = place;
  }

  /** Many events together ask for one look. */
  lookSoon() {
    clearTimeout(this.#looking);
    this.#looking = setTimeout(() => this.#place.attempt(() => this.look()), SETTLE_MS);
  }

  async look() {
    const query = new URLSearchParams({ conversation: this.#place.id, state: "open", order: "asc" });
    /** @type {{ readonly data: readonly Hold[] }} */
    const page = await this.#place.api.get(`/v1/holds?${query}`);
    // Another conversation may have been opened meanwhile.
    if (!location.hash.includes(this.#place.id)) return;
    this.#root.replaceChildren(...page.data.map((hold) => this.#shown(hold)));
    this.#root.hidden = page.data.length === 0;
  }

  /** @param {Hold} hold */
  #shown(hold) {
    const until = hold.expiresAt === null ? "" : `, until ${new Date(hold.expiresAt).toLocaleTimeString()}`;
    const head = element("div", {}, [
      element("strong", { text: "Waiting" }),
      element("span", { class: "mark warn", text: hold.kind }),
      element("code", { class: "quiet", text: hold.id }),
      element("span", { class: "quiet", text: `since ${new Date(hold.openedAt).toLocaleTimeString()}${until}` }),
    ]);
    const shown = element("div", { class: "hold" }, [head]);
    if (Object.keys(hold.subject).length > 0) {
      shown.append(element("pre", { text: JSON.stringify(hold.subject, null, 2) }));
    }
    const { stopId } = hold.subject;
    if (hold.kind === "operator" && typeof stopId === "string") head.append(this.#resume(stopId));
    return shown;
  }

  /**
   * Such a hold is not decided: it ends when its pause is lifted.
   * @param {string} stopId
   */
  #resume(stopId) {
    const button = element("button", { text: "Resume" });
    button.type = "button";
    button.addEventListener("click", () => {
      this.#place.attempt(() => this.#place.api.post(`/v1/stops/${stopId}/lift`, {}));
    });
    return button;
  }
}
