import { z } from "zod";
import { EFFECT_CLASSES } from "../run.ts";
import { pageOf, timeSchema } from "./common.ts";

export const AGENT_NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;
export const MODEL_NAME = /^[a-z0-9][a-z0-9_-]{0,31}\/[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;
/** `server/tool`, as the tool's server lists it. */
export const TOOL_REFERENCE = /^[a-z0-9][a-z0-9_-]{0,31}\/[A-Za-z0-9_.-]{1,64}$/;

export const createAgentSchema = z
  .strictObject({
    name: z.string().regex(AGENT_NAME, "use lower-case letters, digits, - and _, at most 63"),
    runtime: z.string().min(1).max(64).default("langgraph"),
    model: z.string().regex(MODEL_NAME, "name a model as provider/model"),
    instructions: z.string().max(200_000).default(""),
    tools: z.array(z.string().regex(TOOL_REFERENCE, "name a tool as server/tool")).max(128).default([]),
    maxOutputTokens: z.int().min(1).max(200_000).default(8_192),
  })
  .meta({ id: "CreateAgent" });
export type CreateAgent = z.infer<typeof createAgentSchema>;

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
        grade: z.enum(["contained", "mediated", "observed"]),
      }),
    ),
    maxOutputTokens: z.int(),
    plan: z.literal("none"),
    whenBusy: z.literal("enqueue"),
    warnings: z.array(z.object({ code: z.string(), detail: z.string() })),
    createdAt: timeSchema,
  })
  .meta({ id: "Agent" });
export type Agent = z.infer<typeof agentSchema>;
export const agentPageSchema = pageOf(agentSchema, "AgentPage");

export const runtimeSchema = z
  .object({
    name: z.string(),
    version: z.string(),
    available: z.boolean(),
    problem: z.string().nullable(),
    capabilities: z.array(z.string()),
    workers: z.int(),
    room: z.int(),
  })
  .meta({ id: "Runtime" });
export type RuntimeInfo = z.infer<typeof runtimeSchema>;
export const runtimeListSchema = z
  .object({ data: z.array(runtimeSchema), nextCursor: z.null() })
  .meta({ id: "RuntimeList" });
