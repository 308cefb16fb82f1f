/** The smallest loop of model and tools there can be, through the gates: what the scripted engine is when it is real. */
import { PlatformError, type Snapshot } from "@signalbox/contract";
import type { JsonObject, ModelClient, ModelMessage, ToolClient } from "@signalbox/worker";

const MESSAGES_MAX = 32;

export interface AgentLoopParts {
  readonly snapshot: Snapshot;
  readonly model: ModelClient;
  readonly tools: ToolClient;
  readonly say: (text: string) => Promise<void>;
  readonly close: () => Promise<void>;
  readonly signal: AbortSignal;
}

export class AgentLoop {
  readonly #parts: AgentLoopParts;

  constructor(parts: AgentLoopParts) {
    this.#parts = parts;
  }

  /** Goes on until the model calls no tool any more; resolves with its last message. */
  async run(parts: readonly string[]): Promise<ModelMessage> {
    const messages: object[] = [{ role: "user", content: parts.map((text) => ({ type: "text", text })) }];
    for (let count = 0; count < MESSAGES_MAX; count += 1) {
      const message = await this.#ask(messages);
      const uses = message.content.filter((block) => block.type === "tool_use");
      if (uses.length === 0) {
        return message;
      }
      await this.#parts.close();
      messages.push({ role: "assistant", content: message.content });
      const results = await Promise.all(uses.map((use) => this.#call(use)));
      messages.push({ role: "user", content: results });
    }
    throw new PlatformError("engine_failed", `The model called tools in ${MESSAGES_MAX} messages in a row.`);
  }

  #ask(messages: readonly object[]): Promise<ModelMessage> {
    const { snapshot, model, say, signal } = this.#parts;
    const tools = snapshot.tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      input_schema: inputSchema,
    }));
    return model.send({
      body: JSON.stringify({
        model: snapshot.model,
        max_tokens: snapshot.maxOutputTokens,
        stream: true,
        ...(tools.length === 0 ? {} : { tools }),
        messages,
      }),
      onDelta: (delta) => (delta.type === "text" ? say(delta.text) : undefined),
      signal,
    });
  }

  async #call(use: { readonly id: string; readonly name: string; readonly input: JsonObject }): Promise<object> {
    const { tools, signal } = this.#parts;
    const outcome = await tools.call({ name: use.name, input: use.input, toolUseId: use.id, signal });
    const text = outcome.content.map((block) => block.text ?? "").join("") || "(no output)";
    return { type: "tool_result", tool_use_id: use.id, content: [{ type: "text", text }], is_error: outcome.isError };
  }
}
