/**
 * The usual bare graph: the same two nodes over a chat model of `@langchain/core`, tokens read from LangGraph's own
 * stream (`messages`), checkpoints in memory. This is how its users get tokens out of a graph.
 */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, HumanMessage, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { askDouble, type WireMessage } from "./double-client.ts";
import { serveBare } from "./serve-bare.ts";

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

const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", async (state, config) => ({ messages: [await model.invoke(state.messages, config)] }))
  .addNode("tools", () => ({ messages: [] }))
  .addEdge(START, "model")
  .addConditionalEdges("model", (state) => {
    const last = state.messages.at(-1);
    return last instanceof AIMessageChunk && (last.tool_calls?.length ?? 0) > 0 ? "tools" : END;
  })
  .addEdge("tools", "model")
  .compile({ checkpointer: new MemorySaver() });

serveBare(async ({ conversation, text }, onToken) => {
  const place = { configurable: { thread_id: conversation } };
  const input = { messages: [new HumanMessage(text)] };
  for await (const [chunk] of await graph.stream(input, { ...place, streamMode: "messages" })) {
    if (chunk.type === "ai" && chunk.text !== "") onToken(chunk.text);
  }
});
