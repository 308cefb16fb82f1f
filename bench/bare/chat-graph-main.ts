/** The usual bare graph, called in the process: tokens read from LangGraph's own stream, checkpoints in memory. */
import { HumanMessage } from "@langchain/core/messages";
import { MemorySaver } from "@langchain/langgraph";
import { chatGraph } from "../peers/langgraph-api/chat-graph.ts";
import { serveBare } from "./serve-bare.ts";

const graph = chatGraph.compile({ checkpointer: new MemorySaver() });

serveBare(async ({ conversation, text }, onToken) => {
  const place = { configurable: { thread_id: conversation } };
  const input = { messages: [new HumanMessage(text)] };
  for await (const [chunk] of await graph.stream(input, { ...place, streamMode: "messages" })) {
    if (chunk.type === "ai" && chunk.text !== "") onToken(chunk.text);
  }
});
