/** The suite LangGraph publishes for checkpoint savers, against ours: as it runs, and reading only what is durable. */
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { TranscriptSaver } from "@signalbox/executor-langgraph";
import { MemoryTranscript } from "@signalbox/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

// The published suite expects the test functions as globals.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });
const { specTest, deltaChannelHistoryTests } = await import("@langchain/langgraph-checkpoint-validation");

class Transcripts {
  readonly byConversation = new Map<string, MemoryTranscript>();

  of(conversationId: string): MemoryTranscript {
    const transcript = this.byConversation.get(conversationId) ?? new MemoryTranscript();
    this.byConversation.set(conversationId, transcript);
    return transcript;
  }

  saver(salt: string): TranscriptSaver {
    return new TranscriptSaver({ logOf: (id) => this.of(id).log(), salt, keep: "all" });
  }
}

/** Answers every read from a saver that was opened anew from the transcripts: nothing lives in memory alone. */
class ReopenedSaver extends BaseCheckpointSaver {
  readonly #transcripts = new Transcripts();
  #openedCount = 0;

  #reopened(): TranscriptSaver {
    this.#openedCount += 1;
    const saver = this.#transcripts.saver(`s${this.#openedCount}`);
    for (const [conversationId, transcript] of this.#transcripts.byConversation) {
      saver.load(conversationId, transcript.visible);
    }
    return saver;
  }

  override getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return this.#reopened().getTuple(config);
  }

  override async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    yield* this.#reopened().list(config, options);
  }

  override put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    ...rest: [CheckpointMetadata, ChannelVersions]
  ): Promise<RunnableConfig> {
    return this.#reopened().put(config, checkpoint, ...rest);
  }

  override putWrites(config: RunnableConfig, writes: PendingWrite[], ...by: [string, string?]): Promise<void> {
    return this.#reopened().putWrites(config, writes, ...by);
  }

  override deleteThread(conversationId: string): Promise<void> {
    this.#transcripts.byConversation.delete(conversationId);
    return Promise.resolve();
  }
}

const direct = {
  checkpointerName: "TranscriptSaver",
  createCheckpointer: () => new Transcripts().saver("s0"),
};

const reopened = {
  checkpointerName: "TranscriptSaver opened anew for every call",
  createCheckpointer: () => new ReopenedSaver(),
};

specTest(direct);
specTest(reopened);
describe("delta channels", () => {
  deltaChannelHistoryTests(direct);
  deltaChannelHistoryTests(reopened);
});
