/**
 * `POST /v1/embeddings`: small vectors made of the words of a text, each word in a place that seed and word decide.
 * Equal texts have equal vectors and texts that share words are near each other, which is all a test or a demo needs.
 */
import { createHash } from "node:crypto";
import { wordsOf } from "../extractive/words.ts";
import type { JsonObject } from "../json.ts";
import { countTokens } from "../tokens.ts";
import { WireError } from "../wire-error.ts";
import { requiredModel, tokenLimit } from "./request-fields.ts";

const DEFAULT_DIMENSIONS = 64;
const MOST_DIMENSIONS = 4_096;
const MOST_INPUTS = 2_048;

export function embed(body: JsonObject, seed: number): JsonObject {
  const model = requiredModel(body);
  const dimensions = tokenLimit(body, "dimensions") ?? DEFAULT_DIMENSIONS;
  if (dimensions > MOST_DIMENSIONS) {
    throw new WireError(400, `dimensions: at most ${MOST_DIMENSIONS}`);
  }
  const format = body.encoding_format ?? "float";
  if (format !== "float" && format !== "base64") {
    throw new WireError(400, "encoding_format: must be float or base64");
  }
  const inputs = inputsOf(body.input);
  const tokens = inputs.reduce((sum, input) => sum + countTokens(input), 0);
  return {
    object: "list",
    model,
    data: inputs.map((input, index) => {
      const vector = vectorOf(input, { dimensions, seed });
      return { object: "embedding", index, embedding: format === "float" ? [...vector] : toBase64(vector) };
    }),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/** A text, a list of texts, a list of token numbers or a list of such lists. */
function inputsOf(input: unknown): readonly string[] {
  const list: readonly unknown[] =
    Array.isArray(input) && !input.every((each) => typeof each === "number") ? input : [input];
  if (list.length > MOST_INPUTS) {
    throw new WireError(400, `input: at most ${MOST_INPUTS} entries`);
  }
  return list.map((each) => {
    const text = Array.isArray(each) ? each.map((token) => `t${String(token)}`).join(" ") : each;
    if (typeof text !== "string" || text === "") {
      throw new WireError(400, "input: must be text that is not empty, or a list of such texts");
    }
    return text;
  });
}

function vectorOf(
  text: string,
  { dimensions, seed }: { readonly dimensions: number; readonly seed: number },
): Float32Array {
  const vector = new Float32Array(dimensions);
  const words = wordsOf(text);
  for (const word of words.length === 0 ? [text] : words) {
    const digest = createHash("sha256").update(`${seed}\n${word}`).digest();
    const place = digest.readUInt32BE(0) % dimensions;
    vector[place] = (vector[place] ?? 0) + ((digest[4] ?? 0) % 2 === 0 ? 1 : -1);
  }
  const length = Math.hypot(...vector);
  if (length === 0) {
    vector[0] = 1;
    return vector;
  }
  return vector.map((value) => value / length);
}

function toBase64(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
}
