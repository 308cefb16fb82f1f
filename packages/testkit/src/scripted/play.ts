/**
 * What the scripted engine does in one step. An agent's instructions carry it as `{"play": [ … ]}`, a message as
 * `[[play:[ … ]]]`; the message wins. Without either the engine repeats what it was told.
 */
import { isErrorCode, PlatformError, type ErrorCode } from "@signalbox/contract";
import type { JsonObject } from "@signalbox/worker";

/** One thing the scripted engine does, known by its first member. Durations are milliseconds. */
export type Action =
  /** Text of the answer, in pieces of `chunkChars` (all at once by default), `delayMs` before each, `times` over. */
  | {
      readonly say: string;
      readonly chunkChars?: number;
      readonly delayMs?: number;
      readonly times?: number;
    }
  | { readonly think: string }
  /** Closes the text said so far as an item of its own; what is said next begins another. */
  | { readonly closeItem: true }
  /** Takes back what has been said so far. */
  | { readonly retract: string }
  /** Says how many messages the transcript had when the step began. */
  | { readonly sayRemembered: true }
  /** Calls a tool through the tool gate, and says what it said. */
  | { readonly tool: string; readonly input: JsonObject; readonly toolUseId: string }
  /** Runs the loop of model and tools through the gates, with the message as it came, and says what the model says. */
  | { readonly model: true }
  | { readonly stop: string }
  | { readonly fail: ErrorCode; readonly detail?: string }
  /** The engine itself breaks. */
  | { readonly throw: string }
  /** Waits for an interrupt; `deaf` does not even notice that. */
  | { readonly hang: "until_interrupted" | "deaf" }
  | { readonly waitForFile: string }
  /** Waits for a message that is delivered into the step, takes it in, and says it. */
  | { readonly takeInput: true }
  /** Waits for a message that is delivered, and dies with it; goes on when this file says that it died before. */
  | { readonly crashAtInput: string }
  /** The process dies at once, as with SIGKILL. */
  | { readonly crash: true };

const MARKER_OPEN = "[[play:";
const MARKER_CLOSE = "]]";

/** The actions for a message, or `null` when nobody wrote any. Throws `invalid_request` for what is no play. */
export function playOf(instructions: string, parts: readonly string[]): readonly Action[] | null {
  for (const part of parts.toReversed()) {
    const at = part.indexOf(MARKER_OPEN);
    const end = part.lastIndexOf(MARKER_CLOSE);
    if (at >= 0 && end > at) {
      return readActions(parse(part.slice(at + MARKER_OPEN.length, end)));
    }
  }
  if (!instructions.trimStart().startsWith("{")) {
    return null;
  }
  const form = parse(instructions);
  return typeof form === "object" && form !== null && "play" in form ? readActions(form.play) : null;
}

/** A message that makes the scripted engine play. */
export function playMessage(actions: readonly Action[]): string {
  return `${MARKER_OPEN}${JSON.stringify(actions)}${MARKER_CLOSE}`;
}

function readActions(value: unknown): readonly Action[] {
  if (!Array.isArray(value)) {
    throw new PlatformError("invalid_request", "A play is a list of actions.");
  }
  return value.map(readAction);
}

const KINDS = [
  "say",
  "think",
  "closeItem",
  "retract",
  "sayRemembered",
  "tool",
  "model",
  "stop",
  "fail",
  "throw",
  "hang",
  "waitForFile",
  "takeInput",
  "crashAtInput",
  "crash",
] as const;

function readAction(value: unknown): Action {
  const object = typeof value === "object" && value !== null ? value : {};
  const kind = KINDS.find((each) => each in object);
  if (kind === undefined) {
    throw new PlatformError("invalid_request", `A play has no action ${JSON.stringify(value)}.`);
  }
  if (kind === "fail" && !("fail" in object && typeof object.fail === "string" && isErrorCode(object.fail))) {
    throw new PlatformError("invalid_request", "A play fails with a code of the error table.");
  }
  // Plays are written by tests; beyond its kind an action is taken as it was written.
  return object as Action;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new PlatformError("invalid_request", "A play is JSON.", { cause });
  }
}
