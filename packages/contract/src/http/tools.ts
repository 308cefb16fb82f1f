import { z } from "zod";
import { APPROVE_MODES } from "../policy.ts";
import { EFFECT_CLASSES, PIN_STATES } from "../run.ts";
import { pageOf, pageQuerySchema } from "./page.ts";
import { timeSchema } from "./time.ts";

/** Milliseconds that a call of one tool may take. */
const TIMEOUT_MIN_MS = 100;
const TIMEOUT_MAX_MS = 3_600_000;

const hash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hexadecimal digits");

/** Query of `GET /v1/tools`, in order of names. */
export const toolsQuerySchema = pageQuerySchema.omit({ order: true }).extend({
  server: z.string().max(64).optional(),
  state: z.enum(PIN_STATES).optional(),
});

/** Which tools to list. */
export type ToolsQuery = z.infer<typeof toolsQuerySchema>;

/** Something about a definition that a person should look at. `block`: it is trusted by nobody unseen. */
export const toolLintSchema = z
  .object({ grade: z.string(), code: z.string(), pointer: z.string(), detail: z.string() })
  .meta({ id: "ToolLint" });

/** A tool as it is pinned, what is listed now where that differs, and what the operator says of it. */
export const toolSchema = z
  .object({
    /** `server__tool`, as models see it, and as it is named in addresses. */
    name: z.string(),
    server: z.string(),
    /** As its server names it. */
    tool: z.string(),
    title: z.string(),
    /** Calls are made of `approved` tools only. */
    state: z.enum(PIN_STATES),
    /** Whether its server lists it now. */
    offered: z.boolean(),
    /** Of the pinned definition. */
    definitionHash: z.string(),
    /** Where its server is, in words; `null` until it is listed again after an upgrade. */
    origin: z.string().nullable(),
    /** Names exactly what would be approved now: the form and the address. It goes with the approval. */
    digest: hash,
    lints: z.array(toolLintSchema),
    approvedAt: timeSchema.nullable(),
    /** False: nobody has said what it does, and it counts as `irreversible`. */
    classified: z.boolean(),
    effect: z.enum(EFFECT_CLASSES),
    /** Whether a person is asked before a call: as the policy says, always, or never. */
    approve: z.enum(APPROVE_MODES),
    /** Whether what it answers is vouched for, and no text of strangers. */
    trusted: z.boolean(),
    /** How long a call may take; `null`: as long as any. */
    timeoutMs: z.int().nullable(),
  })
  .meta({ id: "Tool" });

/** A tool of the catalogue. */
export type Tool = z.infer<typeof toolSchema>;

/** A page of tools. */
export const toolPageSchema = pageOf(toolSchema, "ToolPage");

/** A member that differs between what is pinned and what is listed. */
export const toolChangeSchema = z
  .object({ pointer: z.string(), before: z.unknown(), after: z.unknown() })
  .meta({ id: "ToolChange" });

/** A tool with its definitions and what became of it. */
export const toolDetailSchema = toolSchema
  .extend({
    /** As its server wrote it and it is pinned. */
    definition: z.record(z.string(), z.unknown()),
    /** What is listed now, where that is not what is pinned. */
    listed: z
      .object({
        definition: z.record(z.string(), z.unknown()),
        definitionHash: z.string(),
        origin: z.string(),
        /** At most 200, by pointer. */
        changes: z.array(toolChangeSchema),
      })
      .nullable(),
    /** The newest hundred, newest first. */
    history: z.array(
      z.object({
        event: z.string(),
        definitionHash: z.string(),
        origin: z.string().nullable(),
        /** `null`: nobody, it was listed so. */
        by: z.object({ keyId: z.string(), user: z.string().nullable() }).nullable(),
        at: timeSchema,
      }),
    ),
  })
  .meta({ id: "ToolDetail" });

/** A tool with its definitions and what became of it. */
export type ToolDetail = z.infer<typeof toolDetailSchema>;

/** Body of `POST /v1/tools/{tool}/approve`. Errors: `approval_changed` when it is listed otherwise by now. */
export const approveToolSchema = z
  .strictObject({ digest: hash })
  .meta({ id: "ApproveTool", examples: [{ digest: "0".repeat(64) }] });

/** Body of `POST /v1/tools/{tool}/classify`: what is left out stays. */
export const classifyToolSchema = z
  .strictObject({
    effect: z.enum(EFFECT_CLASSES).optional(),
    approve: z.enum(APPROVE_MODES).optional(),
    trusted: z.boolean().optional(),
    timeoutMs: z.int().min(TIMEOUT_MIN_MS).max(TIMEOUT_MAX_MS).nullable().optional(),
  })
  .refine((given) => Object.values(given).some((value) => value !== undefined), "must say something of the tool")
  .meta({ id: "ClassifyTool", examples: [{ effect: "write", approve: "policy", timeoutMs: 30_000 }] });

/** What is said of a tool from now on. */
export type ClassifyTool = z.infer<typeof classifyToolSchema>;

/** A tool server, and how it was found the last time. */
export const mcpServerSchema = z
  .object({
    name: z.string(),
    transport: z.string(),
    origin: z.string(),
    listedAt: timeSchema.nullable(),
    /** Since when it cannot be listed, or `null`. */
    failingSince: timeSchema.nullable(),
    problem: z.string().nullable(),
    /** What it lists that no model can be offered, and why. */
    leftOut: z.array(z.object({ tool: z.string(), problem: z.string() })),
  })
  .meta({ id: "McpServer" });

/** A tool server. */
export type McpServer = z.infer<typeof mcpServerSchema>;

/** All tool servers that were seen; there is one page. */
export const mcpServerPageSchema = pageOf(mcpServerSchema, "McpServerPage");
