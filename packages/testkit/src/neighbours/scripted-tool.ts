/** Tools of a scripted MCP server: what they are called with is recorded, what they answer is written beforehand. */
import { appendFileSync } from "node:fs";
import type { CallToolResult, Tool } from "@modelcontextprotocol/server";

export type ToolInput = Readonly<Record<string, unknown>>;

/** Text, or a whole result of the protocol. */
export type ToolAnswer = string | CallToolResult;

/** What a handler is told about the call besides its input. */
export interface ToolContext {
  /** Aborted when the caller cancels or is gone. */
  readonly signal: AbortSignal;
  /** The request's `_meta`, empty when it has none. */
  readonly meta: ToolInput;
  /** How many calls of this tool began before, at this server. */
  readonly earlierCalls: number;
}

/** How a tool answers: exactly one of these. */
export type ToolBehaviour =
  | { readonly handler: (input: ToolInput, context: ToolContext) => ToolAnswer | Promise<ToolAnswer> }
  | { readonly result: ToolAnswer }
  /** A result with `isError`. */
  | { readonly fails: string }
  /** An error of the protocol instead of a result. */
  | { readonly breaks: string }
  /** Text of so many bytes. */
  | { readonly hugeBytes: number };

/** A tool as `tools/list` shows it, and how it answers. Without a description it is described by its name. */
export type ScriptedTool = ToolBehaviour & {
  readonly title?: string;
  readonly description?: string;
  /** Default: an object with any members. */
  readonly inputSchema?: ToolInput;
  readonly outputSchema?: ToolInput;
  readonly annotations?: Tool["annotations"];
  /** Before the answer; ends early when the call is cancelled. */
  readonly delayMs?: number;
};

/** Tools by the name under which the server offers them. */
export type ScriptedTools = Readonly<Record<string, ScriptedTool>>;

export type CallOutcome = "open" | "answered" | "failed" | "cancelled";

/** One call of a scripted tool, and how it went. Goes on changing until `endedAtMs` is set. */
export interface RecordedCall {
  /** From 0, in the order of arrival. */
  readonly ordinal: number;
  readonly tool: string;
  readonly input: ToolInput;
  readonly meta: ToolInput;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Null while the call is open. */
  readonly endedAtMs: number | null;
  readonly outcome: CallOutcome;
}

type MutableCall = { -readonly [Field in keyof RecordedCall]: RecordedCall[Field] };

export interface CallBook {
  readonly calls: readonly RecordedCall[];
  open(call: { readonly tool: string; readonly input: ToolInput; readonly meta: ToolInput }): OpenCall;
}

export interface OpenCall {
  readonly ordinal: number;
  close(outcome: Exclude<CallOutcome, "open">): void;
}

export interface CallBookOptions {
  /** Each beginning and each end is appended to it as one line of JSON, so that another process can count. */
  readonly callsFile?: string | undefined;
  /** Called after every change. */
  readonly onChange?: (() => void) | undefined;
}

export function newCallBook({ callsFile, onChange }: CallBookOptions = {}): CallBook {
  const calls: MutableCall[] = [];
  const changed = (call: RecordedCall) => {
    if (callsFile !== undefined) {
      appendFileSync(callsFile, `${JSON.stringify({ ...call, pid: process.pid })}\n`);
    }
    onChange?.();
  };
  return {
    calls,
    open({ tool, input, meta }) {
      const ordinal = calls.length;
      const call: MutableCall = {
        ordinal,
        tool,
        input,
        meta,
        startedAtMs: Date.now(),
        endedAtMs: null,
        outcome: "open",
      };
      calls.push(call);
      changed(call);
      return {
        ordinal,
        close(outcome) {
          call.endedAtMs = Date.now();
          call.outcome = outcome;
          changed(call);
        },
      };
    },
  };
}

export function toolDefinitions(tools: ScriptedTools): Tool[] {
  return Object.entries(tools).map(([name, { title, description, inputSchema, outputSchema, annotations }]) => ({
    name,
    ...(title === undefined ? {} : { title }),
    description: description ?? name,
    // Tests offer schemas of every kind on purpose; what is wrong with one is for its reader to find.
    inputSchema: (inputSchema ?? { type: "object" }) as Tool["inputSchema"],
    ...(outputSchema === undefined ? {} : { outputSchema }),
    ...(annotations === undefined ? {} : { annotations }),
  }));
}

/** The answer of a tool, as a result of the protocol. Rejects for `breaks`, for a cancelled call and when a handler throws. */
export async function runTool(tool: ScriptedTool, input: ToolInput, context: ToolContext): Promise<CallToolResult> {
  await pause(tool.delayMs ?? 0, context.signal);
  if ("breaks" in tool) {
    throw new Error(tool.breaks);
  }
  if ("fails" in tool) {
    return { content: [{ type: "text", text: tool.fails }], isError: true };
  }
  if ("hugeBytes" in tool) {
    return asResult(hugeText(tool.hugeBytes));
  }
  return asResult("result" in tool ? tool.result : await tool.handler(input, context));
}

function asResult(answer: ToolAnswer): CallToolResult {
  return typeof answer === "string" ? { content: [{ type: "text", text: answer }] } : answer;
}

/** Numbered lines, so that a cut shows where it was made. */
function hugeText(bytes: number): string {
  const lines: string[] = [];
  for (let size = 0, line = 1; size < bytes; line += 1) {
    const text = `line ${line} of a long result\n`;
    lines.push(text);
    size += text.length;
  }
  return lines.join("").slice(0, bytes);
}

/** Rejects with the signal's reason when it is aborted first. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new Error("The call was cancelled.", { cause: signal.reason }));
      return;
    }
    if (ms <= 0) {
      resolve();
      return;
    }
    const abort = () => {
      clearTimeout(timer);
      reject(new Error("The call was cancelled.", { cause: signal.reason }));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal.addEventListener("abort", abort, { once: true });
  });
}
