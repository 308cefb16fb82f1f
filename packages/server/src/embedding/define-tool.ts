/** Functions of the embedding process as tools: the one way to write them. */
import {
  APPROVE_MODES,
  EFFECT_CLASSES,
  PlatformError,
  wellFormedJson,
  type ApproveMode,
  type EffectClass,
} from "@signalbox/contract";
import { LIMITS } from "@signalbox/core";
import { z } from "zod";
import type { FunctionCallContext, FunctionTool } from "../tool-gate/function-tool.ts";
import { isObject, type Json } from "../tool-gate/mcp-protocol.ts";

/** What a function is told beside its input. */
export type ToolContext = FunctionCallContext;

/** A function as a tool. */
export interface ToolDefinition<Input extends z.ZodType> {
  /** 1 to 40 characters of `[a-zA-Z0-9_-]`. Agents name the tool by it; models see it as `app__name`. */
  readonly name: string;
  /** For people. Default: the name. */
  readonly title?: string;
  /** For the model. */
  readonly description?: string;
  /** What the function does to the world; decides whether it is asked for, and whether it may be repeated. */
  readonly effect: EffectClass;
  /**
   * `policy`: the platform's policy decides whether a person is asked; `always`: a person is asked about every call;
   * `never`: nobody is asked because of the effect alone. Default `policy`.
   */
  readonly approve?: ApproveMode;
  /** How long a call may take, 100 ms to an hour. Default 60 000. */
  readonly timeoutMs?: number;
  /** What the function takes: an object. It is called with what this schema makes of the model's arguments. */
  readonly input: Input;
  /**
   * Text is given to the model as it is, an object with `content` is an MCP result, anything else is given as JSON. What it
   * throws becomes an error that the model reads.
   */
  readonly run: (input: z.output<Input>, context: ToolContext) => unknown;
}

const NAME = /^[a-zA-Z0-9_-]{1,40}$/;

/** What may be said of a function, whether or not a compiler has looked at it: the same as of a tool server's tools. */
const SAID = z.object({
  effect: z.enum(EFFECT_CLASSES),
  approve: z.enum(APPROVE_MODES),
  timeoutMs: z.int().min(LIMITS.toolTimeoutMinMs).max(LIMITS.toolTimeoutCapMs).nullable(),
});

/**
 * Makes a function a tool that every engine reaches through the tool gate. Throws `invalid_request` for a name that
 * models do not take, a class, mode or time that there is not, or an input that is no object.
 */
export function defineTool<Input extends z.ZodType>(tool: ToolDefinition<Input>): FunctionTool {
  const { name, title = name, description = "", effect, approve = "policy", timeoutMs = null, input } = tool;
  if (!NAME.test(name)) {
    throw new PlatformError("invalid_request", `A tool's name has 1 to 40 of a-z, A-Z, 0-9, _ and -, not "${name}".`);
  }
  const said = SAID.safeParse({ effect, approve, timeoutMs });
  if (!said.success) {
    throw new PlatformError("invalid_request", `The tool ${name} cannot be so: ${z.prettifyError(said.error)}`);
  }
  const inputSchema = inputSchemaOf(name, input);
  return {
    name,
    effect,
    approve,
    timeoutMs,
    definition: { name, title, description, inputSchema },
    async call(given, context) {
      const read = await input.safeParseAsync(given);
      if (!read.success) return failed(`The arguments are not what this tool takes: ${z.prettifyError(read.error)}`);
      return resultOf(await tool.run(read.data, context));
    },
  };
}

function inputSchemaOf(name: string, input: z.ZodType): Json {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(input, { io: "input" });
  if (schema.type !== "object") {
    throw new PlatformError("invalid_request", `The input of the tool ${name} must be an object.`);
  }
  return wellFormedJson(schema);
}

function resultOf(value: unknown): Json {
  if (value === undefined || value === null) return { content: [] };
  if (typeof value === "string") return { content: [{ type: "text", text: value }] };
  if (isObject(value) && Array.isArray(value.content)) return value;
  try {
    return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value };
  } catch {
    // The function has acted: that its answer cannot be written must not read as a failure.
    return { content: [{ type: "text", text: "It is done. What it answered cannot be written as JSON." }] };
  }
}

function failed(text: string): Json {
  return { isError: true, content: [{ type: "text", text }] };
}
