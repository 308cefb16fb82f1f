/** SSE frames of a response, as they come. Comments are passed over. */

export interface SseFrame {
  readonly id: string | null;
  readonly event: string | null;
  readonly data: string;
}

export async function* readFrames(response: Response): AsyncGenerator<SseFrame, void, undefined> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      const frame = parseFrame(text.slice(0, end));
      text = text.slice(end + 2);
      if (frame !== null) yield frame;
    }
  }
}

function parseFrame(text: string): SseFrame | null {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [name = "", ...value] = line.split(": ");
    fields.set(name, value.join(": "));
  }
  const data = fields.get("data");
  return data === undefined ? null : { id: fields.get("id") ?? null, event: fields.get("event") ?? null, data };
}
