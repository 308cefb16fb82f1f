import { EVENTS_WAITING_MAX, TEXT_WAITING_MAX } from "./limits.js";
export class EventQueue {
    #waiting = [];
    #waitingText = 0;
    #finished = false;
    #abandoned = false;
    #released = false;
    #wakeReader = null;
    #wakeEngine = null;
    #room = null;
    /** Whether the result has been handed in: nothing may follow it. */
    get finished() {
        return this.#finished;
    }
    push(event) {
        if (this.#finished || this.#abandoned) {
            return undefined;
        }
        if (!this.#merge(event)) {
            this.#waiting.push({ kind: "event", event });
        }
        this.#waitingText += "text" in event ? event.text.length : 0;
        this.#wakeReader?.();
        const full = this.#waiting.length > EVENTS_WAITING_MAX || this.#waitingText > TEXT_WAITING_MAX;
        return full && !this.#released ? this.#roomAgain() : undefined;
    }
    /** The engine is to stop: it must not be held by a slow reader any more. */
    release() {
        this.#released = true;
        this.#wakeEngine?.();
    }
    /** Hands in the one result. A second one is ignored: the first was already promised to the reader. */
    finish(result) {
        if (this.#finished) {
            return;
        }
        this.#finished = true;
        this.#waiting.push({ kind: "result", result });
        this.#wakeReader?.();
        this.#wakeEngine?.();
    }
    /** The reader is gone: whatever comes is dropped, and the engine is not made to wait for it. */
    abandon() {
        this.#abandoned = true;
        this.#waiting = [];
        this.#waitingText = 0;
        this.#wakeReader?.();
        this.#wakeEngine?.();
    }
    async *[Symbol.asyncIterator]() {
        while (!this.#abandoned) {
            const next = this.#waiting.shift();
            if (next === undefined) {
                await this.#moreToRead();
                continue;
            }
            if (next.kind === "result") {
                yield next;
                return;
            }
            this.#waitingText -= "text" in next.event ? next.event.text.length : 0;
            if (this.#waiting.length <= EVENTS_WAITING_MAX / 2 && this.#waitingText <= TEXT_WAITING_MAX / 2) {
                this.#wakeEngine?.();
            }
            yield next;
        }
    }
    #merge(event) {
        const last = this.#waiting.at(-1);
        if (!isDelta(event) || last?.kind !== "event" || !isDelta(last.event)) {
            return false;
        }
        const before = last.event;
        const follows = before.offset + before.text.length === event.offset;
        if (before.type !== event.type || before.itemId !== event.itemId || !follows) {
            return false;
        }
        if (before.text.length + event.text.length > TEXT_WAITING_MAX) {
            return false;
        }
        this.#waiting[this.#waiting.length - 1] = { kind: "event", event: { ...before, text: before.text + event.text } };
        return true;
    }
    #moreToRead() {
        return new Promise((resolve) => {
            this.#wakeReader = () => {
                this.#wakeReader = null;
                resolve();
            };
        });
    }
    #roomAgain() {
        this.#room ??= new Promise((resolve) => {
            this.#wakeEngine = () => {
                this.#wakeEngine = null;
                this.#room = null;
                resolve();
            };
        });
        return this.#room;
    }
}
function isDelta(event) {
    return event.type === "text.delta" || event.type === "thinking.delta";
}
//# sourceMappingURL=event-queue.js.map