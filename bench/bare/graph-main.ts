/**
 * The thin bare graph: the same two nodes as ours, the thinnest streaming client for the same double, checkpoints in
 * memory, driven by a call in the process, tokens handed out past LangGraph by a callback. Nothing could be less.
 */
import { Annotation, END, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { askDouble, type WireMessage } from "./double-client.ts";
import { serveBare } from "./serve-bare.ts";

const State = Annotation.Root({
  messages: Annotation<readonly WireMessage[]>({
    reducer: (before, added) => [...before, ...added],
    default: () => [],
  }),
});

let tell: (text: string) => void = () => undefined;

const graph = new StateGraph(State)
  .addNode("model", async (state) => {
    let text = "";
    for await (const tokens of askDouble(state.messages)) {
      for (const token of tokens) {
        text += token;
        tell(token);
      }
    }
    const answer: WireMessage = { role: "assistant", content: [{ type: "text", text }] };
    return { messages: [answer] };
  })
  .addNode("tools", () => ({ messages: [] }))
  .addEdge(START, "model")
  .addConditionalEdges("model", (state) =>
    state.messages.at(-1)?.content.some((block) => block.type === "tool_use") === true ? "tools" : END,
  )
  .addEdge("tools", "model")
  .compile({ checkpointer: new MemorySaver() });

serveBare(async ({ conversation, text }, onToken) => {
  tell = onToken;
  const message: WireMessage = { role: "user", content: [{ type: "text", text }] };
  await graph.invoke({ messages: [message] }, { configurable: { thread_id: conversation } });
});
