import { z } from "zod";
import { CONTAINMENT_GRADES, DEFAULT_WHEN_BUSY, EFFECT_CLASSES, WHEN_BUSY } from "../run.ts";
import { INPUT_LIMITS } from "./input-limits.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

/** Names of agents: they stand in addresses and in command lines. */
export const AGENT_NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
/** `provider/model`. */
const MODEL_NAME = /^[a-z0-9][a-z0-9_-]{0,31}\/[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;
/** `server/tool`, as the tool's server lists it. */
const TOOL_REFERENCE = /^[a-z0-9][a-z0-9_-]{0,31}\/[A-Za-z0-9_.-]{1,64}$/;

/** Names of client tools: as the model sees them, and never those of a tool server's tool (`server__tool`). */
const CLIENT_TOOL_NAME = /^(?!.*__)[a-zA-Z0-9_-]{1,64}$/;
const CLIENT_TOOL_COUNT = 32;
const CLIENT_TOOL_BYTES = 16_384;
const PATIENCE_MS = 300_000;
const PATIENCE_MS_MAX = 7 * 24 * 3_600_000;

/**
 * A tool that the caller itself carries out, such as opening a page of its own. The run waits with a hold of kind
 * `client_tool` until `POST /v1/tool-calls/{call}/result` tells what came of it.
 */
export const clientToolSchema = z
  .strictObject({
    name: z.string().regex(CLIENT_TOOL_NAME, "use letters, digits, - and single _, at most 64"),
    description: z.string().min(1).max(4_000),
    /** JSON Schema of the arguments; an object. */
    inputSchema: z
      .looseObject({ type: z.literal("object") })
      .refine((schema) => JSON.stringify(schema).length <= CLIENT_TOOL_BYTES, "is too large"),
    /** What it can do to the world. Left out, it counts as `irreversible`, which the policy usually asks about. */
    effect: z.enum(EFFECT_CLASSES).default("irreversible"),
    /** How long a client may take, 1 s to 7 days. Default 5 minutes; then the model reads `client_tool_unanswered`. */
    patienceMs: z.int().min(1_000).max(PATIENCE_MS_MAX).default(PATIENCE_MS),
  })
  .meta({ id: "ClientTool" });

/** A tool that the caller itself carries out. */
export type ClientTool = z.infer<typeof clientToolSchema>;

/** What an agent is made of, and what a revision of it can change. */
const FIELDS = {
  runtime: z.string().min(1).max(64),
  model: z.string().regex(MODEL_NAME, "name a model as provider/model"),
  instructions: z.string().max(INPUT_LIMITS.instructionsChars),
  tools: z.array(z.string().regex(TOOL_REFERENCE, "name a tool as server/tool")).max(INPUT_LIMITS.toolCount),
  clientTools: z
    .array(clientToolSchema)
    .max(CLIENT_TOOL_COUNT)
    .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, "has two tools of one name")
    .refine((tools) => tools.every(({ name }) => name !== "ask_user"), "cannot name a tool ask_user; set askUser"),
  /** Whether the model may ask the person a question (`ask_user`): a hold of kind `input`, answered by its decision. */
  askUser: z.boolean(),
  maxOutputTokens: z.int().min(1).max(INPUT_LIMITS.maxOutputTokens),
  /** What a message does to a run that is active, where the message does not say. */
  whenBusy: z.enum(WHEN_BUSY),
} as const;

/**
 * Body of `POST /v1/agents`. Defaults: runtime `langgraph`, no instructions, no tools, 8192 output tokens for each
 * model call, `whenBusy` `enqueue`. Errors: `agent_name_taken`, `runtime_unknown`, `runtime_constraint`, `SDK_UNAVAILABLE`, `model_unknown`,
 * `tool_unknown`.
 */
export const createAgentSchema = z
  .strictObject({
    name: z.string().regex(AGENT_NAME, "use lower-case letters, digits, - and _, at most 63"),
    runtime: FIELDS.runtime.default("langgraph"),
    model: FIELDS.model,
    instructions: FIELDS.instructions.default(""),
    tools: FIELDS.tools.default([]),
    clientTools: FIELDS.clientTools.default([]),
    askUser: FIELDS.askUser.default(false),
    maxOutputTokens: FIELDS.maxOutputTokens.default(8_192),
    whenBusy: FIELDS.whenBusy.default(DEFAULT_WHEN_BUSY),
  })
  .meta({
    id: "CreateAgent",
    examples: [{ name: "support", model: "sim/extractive-1", instructions: "Help.", tools: ["docs/read_text_file"] }],
  });

/** What a new agent is, with its defaults filled in. */
export type CreateAgent = z.infer<typeof createAgentSchema>;

/**
 * Body of `PATCH /v1/agents/{agent}`: what is given changes, everything else stays. A change of anything but `disabled`
 * makes the next revision; a body that changes nothing makes none. A disabled agent takes no new messages; runs that
 * were accepted keep their revision and go on. `revision`, like an `If-Match` header, names the revision that is to be
 * changed. Errors: `not_found`, `revision_changed`, and those of creating an agent for the fields that are given.
 */
export const updateAgentSchema = z
  .strictObject({ ...FIELDS, disabled: z.boolean(), revision: z.int().min(1) })
  .partial()
  .meta({
    id: "UpdateAgent",
    examples: [{ instructions: "Answer in one sentence.", revision: 1 }, { disabled: true }],
  });

/** What changes about an agent. */
export type UpdateAgent = z.infer<typeof updateAgentSchema>;

/** An agent at its current revision, as the API shows it. */
export const agentSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    revision: z.int(),
    runtime: z.string(),
    model: z.string(),
    instructions: z.string(),
    tools: z.array(
      z.object({
        reference: z.string(),
        effect: z.enum(EFFECT_CLASSES),
        grade: z.enum(CONTAINMENT_GRADES),
      }),
    ),
    clientTools: z.array(clientToolSchema).default([]),
    askUser: z.boolean().default(false),
    maxOutputTokens: z.int(),
    /** True while it takes no new messages. */
    disabled: z.boolean().default(false),
    plan: z.literal("none"),
    whenBusy: z.enum(WHEN_BUSY).default(DEFAULT_WHEN_BUSY),
    /** What works with less than was asked for. */
    warnings: z.array(z.object({ code: z.string(), detail: z.string() })),
    createdAt: timeSchema,
  })
  .meta({ id: "Agent" });

/** An agent: instructions, a model and tools under a name. */
export type Agent = z.infer<typeof agentSchema>;

/** A page of agents. */
export const agentPageSchema = pageOf(agentSchema, "AgentPage");

/** One revision of an agent: what runs that were accepted under it are answered with. */
export const agentRevisionSchema = z
  .object({
    agentId: z.string(),
    revision: z.int(),
    runtime: z.string(),
    model: z.string(),
    instructions: z.string(),
    /** As `server/tool`. */
    tools: z.array(z.string()),
    clientTools: z.array(clientToolSchema).default([]),
    askUser: z.boolean().default(false),
    maxOutputTokens: z.int(),
    whenBusy: z.enum(WHEN_BUSY),
    createdAt: timeSchema,
  })
  .meta({ id: "AgentRevision" });

/** One revision of an agent. Revisions never change. */
export type AgentRevision = z.infer<typeof agentRevisionSchema>;

/** A page of revisions. */
export const agentRevisionPageSchema = pageOf(agentRevisionSchema, "AgentRevisionPage");

/** A runtime that connected workers announce. */
export const runtimeSchema = z
  .object({
    name: z.string(),
    /** Version of the engine's package. */
    version: z.string(),
    available: z.boolean(),
    /** Why it is not available, and what the operator can do; `null` when it is. */
    problem: z.string().nullable(),
    capabilities: z.array(z.string()),
    /** Connected workers that announce it. */
    workers: z.int(),
    /** Steps that could begin now. */
    room: z.int(),
  })
  .meta({ id: "Runtime" });

/** What one runtime can do, and where there is room for it. */
export type RuntimeInfo = z.infer<typeof runtimeSchema>;

/** Every runtime of the platform; there is always one page. */
export const runtimeListSchema = z
  .object({ data: z.array(runtimeSchema), nextCursor: z.null() })
  .meta({ id: "RuntimeList" });
