import { z } from "zod";
import {
  APPROVE_MODES,
  ORIGINS,
  policyDocumentSchema,
  policyObligationSchema,
  POLICY_VERDICTS,
  POSTURES,
  TOOL_VERDICTS,
} from "../policy.ts";
import { EFFECT_CLASSES, TOOL_CALL_STATES } from "../run.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

/** Body of `POST /v1/policies`. Errors: `policy_invalid` with the place in the document. */
export const createPolicySchema = z.strictObject({ document: z.unknown() }).meta({
  id: "CreatePolicy",
  examples: [
    {
      document: {
        version: 1,
        rules: [
          { id: "read", verdict: "allow", tools: { effects: ["read"] } },
          {
            id: "large-refunds",
            verdict: "ask",
            tools: { names: ["shop__refund"] },
            when: { kind: "argument", at: "/amount", test: "more_than", value: 50 },
            reason: "A refund above 50.",
          },
        ],
      },
    },
  ],
});

/** A policy that is to be kept. */
export type CreatePolicy = z.infer<typeof createPolicySchema>;

/** A version of a tenant's policy. It never changes; one of them is what calls are judged by. */
export const keptPolicySchema = z
  .object({
    /** `default` for the one the platform ships with. */
    id: z.string(),
    /** SHA-256 (hex) of the canonical document. */
    hash: z.string(),
    document: policyDocumentSchema,
    /** Whether calls are judged by it now. */
    active: z.boolean(),
    createdAt: timeSchema.nullable(),
    createdBy: z.object({ keyId: z.string(), user: z.string().nullable() }).nullable(),
    /** When it was last put in place, or `null`. */
    activatedAt: timeSchema.nullable(),
  })
  .meta({ id: "Policy" });

/** A version of a tenant's policy. */
export type KeptPolicy = z.infer<typeof keptPolicySchema>;

/** A page of versions. */
export const policyPageSchema = pageOf(keptPolicySchema, "PolicyPage");

/** Body of `POST /v1/policies/{policy}/activate`. Errors: `policy_changed`. */
export const activationSchema = z
  .strictObject({
    /** What must be in place now, as it was shown (`default` or an id); left out, whatever is. */
    replaces: z.string().min(1).max(64).optional(),
  })
  .meta({ id: "ActivatePolicy", examples: [{}, { replaces: "default" }] });

/** Body of `POST /v1/policies/{policy}/explain`. Errors: `not_found`. */
export const explainCallSchema = z
  .strictObject({
    /**
     * A recorded call of a run (`tc_…`), or of a client of the gateway (`gtc_…`). It is judged by what was known when it
     * was proposed.
     */
    toolCallId: z.string().min(1).max(64),
  })
  .meta({ id: "ExplainCall", examples: [{ toolCallId: "tc_0193e0a4b5c67d8e9fa0b1c2d3e4f506" }] });

/** Which recorded call is explained. */
export type ExplainCall = z.infer<typeof explainCallSchema>;

const simulatedText = z.strictObject({
  kind: z.enum(["user", "system", "tool", "passage"]),
  tool: z.string().max(64).nullable().default(null),
  trusted: z.boolean().default(false),
  private: z.boolean().default(true),
  clearance: z.int().min(0).default(0),
  text: z.string().max(64 * 1024),
});

const simulatedPast = z.strictObject({
  tool: z.string().min(1).max(64),
  effect: z.enum(EFFECT_CLASSES).default("irreversible"),
  state: z.enum(TOOL_CALL_STATES).default("succeeded"),
  arguments: z.record(z.string(), z.unknown()).default({}),
  /** How long ago. */
  agoMs: z.int().min(0).default(0),
});

/** Body of `POST /v1/policies/{policy}/simulate`: a call and a run that need not exist. */
export const simulatedCallSchema = z
  .strictObject({
    /** As agents name it, `server__tool`; what the platform knows of it is taken where nothing is said here. */
    tool: z.string().min(1).max(64),
    arguments: z.record(z.string(), z.unknown()).default({}),
    effect: z.enum(EFFECT_CLASSES).optional(),
    /** Whether an operator has classified it. */
    classified: z.boolean().optional(),
    approve: z.enum(APPROVE_MODES).optional(),
    unit: z.string().max(200).nullable().default(null),
    clearance: z.int().min(0).default(0),
    user: z.string().max(255).nullable().default(null),
    roles: z.array(z.string().max(100)).max(100).default([]),
    units: z.array(z.string().max(200)).max(100).default([]),
    userClearance: z.int().min(0).default(0),
    agent: z.string().max(64).default("agent"),
    runtime: z.string().max(64).default("langgraph"),
    posture: z.enum(POSTURES).optional(),
    texts: z.array(simulatedText).max(50).default([]),
    history: z.array(simulatedPast).max(500).default([]),
  })
  .meta({
    id: "SimulatedCall",
    examples: [
      {
        tool: "shop__refund",
        effect: "irreversible",
        arguments: { amount: 80 },
        texts: [{ kind: "user", text: "Refund 80 please." }],
      },
    ],
  });

/** A call and a run that need not exist. */
export type SimulatedCall = z.infer<typeof simulatedCallSchema>;

const decisionSchema = z
  .object({
    verdict: z.enum(TOOL_VERDICTS),
    /** Of a denial. */
    code: z.string().nullable(),
    reason: z.string(),
    /** Ids of the rules that gave it. */
    rules: z.array(z.string()),
    conditions: z.array(policyObligationSchema),
    provenance: z.array(
      z.object({
        at: z.string(),
        origin: z.enum(ORIGINS),
        tool: z.string().nullable(),
        isDestination: z.boolean(),
      }),
    ),
  })
  .meta({ id: "PolicyDecision" });

interface Trace {
  readonly kind: string;
  readonly holds: boolean | null;
  readonly of: readonly Trace[];
}

const traceSchema: z.ZodType<Trace> = z
  .lazy(() => z.object({ kind: z.string(), holds: z.boolean().nullable(), of: z.array(traceSchema).readonly() }))
  .meta({ id: "ConditionTrace" });

/** Why a policy decides as it does about a call, and what would make it decide otherwise. */
export const explainedCallSchema = z
  .object({
    /** The recorded call, or `null` for one that was made up. */
    toolCallId: z.string().nullable(),
    tool: z.string(),
    /** What became of it, or `null`. */
    state: z.enum(TOOL_CALL_STATES).nullable(),
    decision: decisionSchema,
    rules: z.array(
      z.object({
        id: z.string(),
        verdict: z.enum(POLICY_VERDICTS),
        /** Whether it is about this tool and this caller at all. */
        isAbout: z.boolean(),
        /** `null` when it cannot be judged; the call is then denied. */
        matches: z.boolean().nullable(),
        when: traceSchema.nullable(),
      }),
    ),
    facts: z.object({
      effect: z.enum(EFFECT_CLASSES),
      hasSeenPrivate: z.boolean(),
      hasSeenUntrusted: z.boolean(),
      historyCount: z.int(),
      areSourcesCut: z.boolean(),
    }),
    wouldChange: z.array(z.object({ what: z.string(), verdict: z.enum(TOOL_VERDICTS) })),
  })
  .meta({ id: "ExplainedCall" });

/** Why a policy decides as it does about a call. */
export type ExplainedCall = z.infer<typeof explainedCallSchema>;

/** Body of `POST /v1/policies/{policy}/back-test`. */
export const backTestQuerySchema = z
  .strictObject({
    /** How far back. */
    days: z.int().min(1).max(90).default(7),
    /** At most so many calls, newest first. */
    limit: z.int().min(1).max(2_000).default(500),
  })
  .meta({ id: "BackTestPolicy", examples: [{}, { days: 30, limit: 2000 }] });

/** How far back, and how much. */
export type BackTestQuery = z.infer<typeof backTestQuerySchema>;

const differenceSchema = z.object({
  toolCallId: z.string(),
  runId: z.string(),
  tool: z.string(),
  proposedAt: timeSchema,
  was: z.enum(TOOL_VERDICTS),
  wouldBe: z.enum(TOOL_VERDICTS),
  rules: z.array(z.string()),
  reason: z.string(),
});

/** Recorded calls, judged by this policy and by the one in place: what would be otherwise. */
export const backTestSchema = z
  .object({
    policyId: z.string(),
    /** What it is compared with. */
    comparedWith: z.string(),
    callCount: z.int(),
    /** Whether there were more calls than were looked at. */
    isCut: z.boolean(),
    verdicts: z.object({ allow: z.int(), ask: z.int(), deny: z.int() }),
    newlyAllowed: z.array(differenceSchema),
    newlyAsked: z.array(differenceSchema),
    newlyDenied: z.array(differenceSchema),
  })
  .meta({ id: "BackTest" });

/** What would be otherwise. */
export type BackTest = z.infer<typeof backTestSchema>;
