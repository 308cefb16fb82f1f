/**
 * The usual graph: two nodes over a chat model of `@langchain/core`, whose tokens leave through LangGraph's own stream
 * (`messages`). It stands beside the peer's packages, because the peer serves it: what it imports comes from there once
 * they are installed, otherwise in the same versions from the repository's own. Who runs it says where checkpoints go.
 */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { askDouble, type WireMessage } from "../../bare/double-client.ts";

class DoubleChatModel extends BaseChatModel {
  override _llmType(): string {
    return "double";
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for await (const tokens of askDouble(messages.map(wireOf))) {
      for (const text of tokens) {
        const chunk = new ChatGenerationChunk({ text, message: new AIMessageChunk(text) });
        yield chunk;
        await runManager?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
      }
    }
  }

  override _generate(): Promise<ChatResult> {
    throw new Error("the double is only streamed");
  }
}

function wireOf(message: BaseMessage): WireMessage {
  return { role: message.type === "ai" ? "assistant" : "user", content: [{ type: "text", text: message.text }] };
}

const model = new DoubleChatModel({});

export const chatGraph = new StateGraph(MessagesAnnotation)
  .addNode("model", async (state, config) => ({ messages: [await model.invoke(state.messages, config)] }))
  .addNode("tools", () => ({ messages: [] }))
  .addEdge(START, "model")
  .addConditionalEdges("model", (state) => {
    const last = state.messages.at(-1);
    return last instanceof AIMessageChunk && (last.tool_calls?.length ?? 0) > 0 ? "tools" : END;
  })
  .addEdge("tools", "model");

/** As the peer wants it, which brings its own checkpoints. */
export const graph = chatGraph.compile();
