/**
 * The graph: `model` asks for one message, `tools` runs one call, a superstep and a checkpoint each. Every call of a
 * message is a node run of its own, so that what is done is never done again with its neighbours.
 */
import { Annotation, Command, END, Send, START, StateGraph } from "@langchain/langgraph";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { ToolClient } from "@signalbox/worker";
import { toolResult, toolUsesOf, type Message, type ToolUse } from "./message.ts";
import { isCutOff, type ModelCaller } from "./model-caller.ts";
import type { StepScope } from "./step-scope.ts";
import type { TranscriptSaver } from "./transcript-saver.ts";

/** Puts other messages in place of all there are: a turn that is gone on with, without what was torn off. */
export interface Replacement {
  readonly instead: readonly Message[];
}

const State = Annotation.Root({
  messages: Annotation<readonly Message[], readonly Message[] | Replacement>({
    reducer: (before, added) => ("instead" in added ? added.instead : [...before, ...added]),
    default: () => [],
  }),
});

export interface GraphParts {
  readonly model: ModelCaller;
  readonly tools: ToolClient;
  readonly saver: TranscriptSaver;
  /** The step that is running. */
  readonly scope: () => StepScope;
}

/**
 * A call on its way to its node. What a `Send` carries is rebuilt member by member by the library, which loses a member
 * named `__proto__` and takes objects of certain shapes for commands of its own; text it leaves alone.
 */
interface SealedCall {
  readonly toolUseJson: string;
}

function sealed(use: ToolUse): SealedCall {
  return { toolUseJson: JSON.stringify(use) };
}

function opened(call: SealedCall): ToolUse {
  // Written by `sealed` alone.
  return JSON.parse(call.toolUseJson) as ToolUse;
}

export type AgentGraph = ReturnType<typeof buildGraph>;

export function buildGraph(parts: GraphParts) {
  const model = async (state: typeof State.State, config: RunnableConfig) => {
    const scope = parts.scope();
    const ahead = scope.takeAhead(state.messages.length);
    // What was asked ahead has its input already; a later call takes along what has come in.
    const taken = ahead === null ? await scope.takeAlong() : [];
    const asked = [...state.messages, ...taken];
    const message = await (ahead ?? parts.model.call(asked, scope, config.signal ?? scope.signal));
    scope.keepTaken();
    // Until here there was only the input; from here on the graph stands still until the transcript has it.
    parts.saver.release();
    const update = { messages: [...taken, parts.model.stored(message)] };
    const uses = isCutOff(message) ? [] : toolUsesOf(message.content);
    if (uses.length === 0) {
      scope.answer = message;
      return new Command({ update });
    }
    await scope.phases.enter("using_tool");
    return new Command({ update, goto: uses.map((use) => new Send("tools", sealed(use))) });
  };
  const tools = async (call: SealedCall, config: RunnableConfig) => {
    const use = opened(call);
    const outcome = await parts.tools.call({
      name: use.name,
      input: use.input,
      toolUseId: use.id,
      signal: config.signal ?? parts.scope().signal,
    });
    return { messages: [toolResult(use.id, outcome)] };
  };
  return new StateGraph(State)
    .addNode("model", model, { ends: ["tools", END] })
    .addNode("tools", tools)
    .addEdge(START, "model")
    .addEdge("tools", "model")
    .compile({ checkpointer: parts.saver });
}
