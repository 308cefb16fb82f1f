import type { SDKUserMessage } from "@anthropic-ai/claude-agent-sdk";

/**
 * The engine's input: it stays open for as long as the process is kept, and hands over one message per turn. Room for
 * one is enough, because a turn must end before the next begins.
 */
export class MessageInput implements AsyncIterable<SDKUserMessage> {
  #next: SDKUserMessage | null = null;
  #isClosed = false;
  #wake: (() => void) | null = null;

  push(message: SDKUserMessage): void {
    if (this.#next !== null) {
      throw new Error("the engine has not taken the last message yet");
    }
    this.#next = message;
    this.#wake?.();
  }

  close(): void {
    this.#isClosed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<SDKUserMessage> {
    while (!this.#isClosed) {
      const message = this.#next;
      if (message === null) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      } else {
        this.#next = null;
        yield message;
      }
    }
  }
}
