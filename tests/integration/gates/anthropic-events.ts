/** Events of the Anthropic wire as a provider writes them, for scripts and for what an engine must see. */
type Json = Readonly<Record<string, unknown>>;

export function frame(event: Json): string {
  return `event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`;
}

export const started = (usage: Json = {}): Json => ({
  type: "message_start",
  message: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "sim-1-2026",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 25, output_tokens: 1, cache_creation_input_tokens: 3, cache_read_input_tokens: 7, ...usage },
  },
});

export function text(index: number, ...pieces: readonly string[]): readonly Json[] {
  return [
    { type: "content_block_start", index, content_block: { type: "text", text: "" } },
    ...pieces.map((piece) => ({ type: "content_block_delta", index, delta: { type: "text_delta", text: piece } })),
    { type: "content_block_stop", index },
  ];
}

export function thinking(index: number, said: string): readonly Json[] {
  return [
    { type: "content_block_start", index, content_block: { type: "thinking", thinking: "", signature: "" } },
    { type: "content_block_delta", index, delta: { type: "thinking_delta", thinking: said } },
    { type: "content_block_delta", index, delta: { type: "signature_delta", signature: "c2ln" } },
    { type: "content_block_stop", index },
  ];
}

export function toolUse(index: number, id: string, ...pieces: readonly string[]): readonly Json[] {
  return [
    {
      type: "content_block_start",
      index,
      content_block: { type: "tool_use", id, name: "mcp__signalbox__docs__read", input: {} },
    },
    ...pieces.map((piece) => ({
      type: "content_block_delta",
      index,
      delta: { type: "input_json_delta", partial_json: piece },
    })),
    { type: "content_block_stop", index },
  ];
}

export function stopped(reason: string): readonly Json[] {
  return [
    { type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 12 } },
    { type: "message_stop" },
  ];
}

export const failed = (type: string, message: string): Json => ({ type: "error", error: { type, message } });

export function stream(...events: readonly Json[]): string {
  return events.map(frame).join("");
}
