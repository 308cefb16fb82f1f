/** The responses wire: whole answers, the event stream and errors. */
import type { Block, WrittenBlock } from "../delivery.ts";
import type { JsonObject } from "../json.ts";
import { openAiErrorBody, openAiKind } from "./openai-errors.ts";
import {
  finishedItems,
  type ItemStatus,
  itemId,
  outputItem,
  responseEnd,
  responseObject,
  textPart,
} from "./response-object.ts";
import { parseResponses } from "./responses-request.ts";
import { type Encoder, type Envelope, jsonText, sseEvent, type Wire } from "./wire.ts";

export const responsesWire: Wire = {
  name: "responses",
  requestIdHeader: "x-request-id",
  parse: parseResponses,
  encoder: encode,
  whole: (blocks, envelope) => responseObject(envelope, finishedItems(blocks, envelope)),
  errorBody: openAiErrorBody,
};

type Send = (type: string, fields: JsonObject) => string;

function encode(envelope: Envelope): Encoder {
  let sequence = -1;
  const send: Send = (type, fields) => {
    sequence += 1;
    return sseEvent(type, JSON.stringify({ type, sequence_number: sequence, ...fields }));
  };
  const blockCount = envelope.delivery.actions.filter((action) => action.do === "open").length;
  const { status } = responseEnd(envelope.delivery.stop);
  /** What ended at the length limit is the last block, and it alone is not whole. */
  const statusAt = (place: number): ItemStatus => (place === blockCount - 1 ? status : "completed");
  const written: WrittenBlock[] = [];
  let open: Block = { kind: "text" };
  let text = "";
  let deltaTail = "";
  return {
    ping: "",
    begin() {
      const response = responseObject(envelope, null);
      return send("response.created", { response }) + send("response.in_progress", { response });
    },
    open(block) {
      open = block;
      text = "";
      const place = written.length;
      const id = itemId(block, { ids: envelope.ids, place });
      deltaTail = `,"output_index":${place},"item_id":"${id}"${DELTA_TAILS[block.kind]}}`;
      const item = outputItem(block, id, { text: null, status: "in_progress" });
      return send("response.output_item.added", { output_index: place, item }) + partAdded(send, block, { id, place });
    },
    token(token) {
      text += token;
      sequence += 1;
      const type = DELTA_TYPES[open.kind];
      return sseEvent(type, `{"type":"${type}","sequence_number":${sequence},"delta":${jsonText(token)}${deltaTail}`);
    },
    close() {
      const place = written.length;
      const id = itemId(open, { ids: envelope.ids, place });
      const whole = { block: open, text: text.toWellFormed() };
      written.push(whole);
      const done = partDone(send, whole, { id, place });
      const item = outputItem(open, id, { text: whole.text, status: statusAt(place) });
      return done + send("response.output_item.done", { output_index: place, item });
    },
    end() {
      return send(`response.${status}`, { response: responseObject(envelope, finishedItems(written, envelope)) });
    },
    error: (error) =>
      send("error", { code: openAiKind(error).code ?? "server_error", message: error.message, param: null }),
  };
}

const DELTA_TYPES: Readonly<Record<Block["kind"], string>> = {
  text: "response.output_text.delta",
  thinking: "response.reasoning_summary_text.delta",
  tool: "response.function_call_arguments.delta",
};

const DELTA_TAILS: Readonly<Record<Block["kind"], string>> = {
  text: `,"content_index":0,"logprobs":[]`,
  thinking: `,"summary_index":0`,
  tool: "",
};

interface Place {
  readonly id: string;
  readonly place: number;
}

function partAdded(send: Send, block: Block, { id, place }: Place): string {
  const at = { item_id: id, output_index: place };
  switch (block.kind) {
    case "text":
      return send("response.content_part.added", { ...at, content_index: 0, part: textPart("") });
    case "thinking":
      return send("response.reasoning_summary_part.added", {
        ...at,
        summary_index: 0,
        part: { type: "summary_text", text: "" },
      });
    case "tool":
      return "";
  }
}

function partDone(send: Send, { block, text }: WrittenBlock, { id, place }: Place): string {
  const at = { item_id: id, output_index: place };
  switch (block.kind) {
    case "text":
      return (
        send("response.output_text.done", { ...at, content_index: 0, text, logprobs: [] }) +
        send("response.content_part.done", { ...at, content_index: 0, part: textPart(text) })
      );
    case "thinking":
      return (
        send("response.reasoning_summary_text.done", { ...at, summary_index: 0, text }) +
        send("response.reasoning_summary_part.done", { ...at, summary_index: 0, part: { type: "summary_text", text } })
      );
    case "tool":
      return send("response.function_call_arguments.done", { ...at, name: block.name, arguments: text });
  }
}
