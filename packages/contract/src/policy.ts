/**
 * The document a policy is written in: rules that a call of a tool is judged by. Data, not a program: every condition is
 * one of a closed list, so that a rule is bounded in what it costs and can be explained.
 */
import { z } from "zod";
import { EFFECT_CLASSES, TOOL_CALL_STATES, type EffectClass, type ToolCallState } from "./run.ts";

/** What a rule says of the calls it matches. `forbid` overrides `ask`, `ask` overrides `allow`, and what no rule matches is denied. */
export const POLICY_VERDICTS = ["allow", "ask", "forbid"] as const;
/** What a rule says of the calls it matches. */
export type PolicyVerdict = (typeof POLICY_VERDICTS)[number];

/** What a decision comes to. */
export const TOOL_VERDICTS = ["allow", "deny", "ask"] as const;
/** What a decision comes to. */
export type ToolVerdict = (typeof TOOL_VERDICTS)[number];

/** What the operator said about asking for a tool: as the policy has it, always, or not because of its class. */
export const APPROVE_MODES = ["policy", "always", "never"] as const;
/** What the operator said about asking for a tool. */
export type ApproveMode = (typeof APPROVE_MODES)[number];

/** How much a platform trusts tools that nobody has classified: `dev` asks, `production` denies. */
export const POSTURES = ["dev", "production"] as const;
/** How much a platform trusts tools that nobody has classified. */
export type Posture = (typeof POSTURES)[number];

/**
 * Where a value of an argument comes from. `constant`: the tool's own schema names it, or it says nothing (`true`, `null`,
 * an empty text). `user`, `system`: it stands in what people wrote, or in the agent's instructions. `trusted_tool`:
 * in the result of a tool that the operator trusts. `tool`, `passage`: in the result of another tool, or in a
 * retrieved passage. `model`: nowhere; the model made it up or worked it out.
 */
export const ORIGINS = ["constant", "user", "system", "trusted_tool", "tool", "passage", "model"] as const;
/** Where a value of an argument comes from. */
export type Origin = (typeof ORIGINS)[number];

/** What a run has seen: data that is not public; texts that nobody vouches for. */
export const SEEN_KINDS = ["private", "untrusted"] as const;
/** What a run has seen. */
export type SeenKind = (typeof SEEN_KINDS)[number];

/** A test of one argument. Which tests an argument can take follows from its type in the tool's input schema. */
export const ARGUMENT_TESTS = {
  present: "any",
  equals: "scalar",
  one_of: "scalar",
  more_than: "number",
  at_least: "number",
  less_than: "number",
  at_most: "number",
  longer_than: "sized",
  starts_with: "string",
  ends_with: "string",
  contains: "string",
  under_path: "string",
  host_in: "string",
} as const;
/** A test of one argument. */
export type ArgumentTest = keyof typeof ARGUMENT_TESTS;

/** A value that an argument is compared with. */
export type PolicyScalar = string | number | boolean | null;

/** Which tools; every member given must hold, of a list one is enough. */
export interface ToolSelector {
  readonly effects?: readonly EffectClass[] | undefined;
  readonly servers?: readonly string[] | undefined;
  /** As agents name them, `server__tool`. */
  readonly names?: readonly string[] | undefined;
  readonly approve?: readonly ApproveMode[] | undefined;
  /** Whether the operator has classified the tool. */
  readonly isClassified?: boolean | undefined;
}

/** Which callers; every member given must hold, of a list one is enough. */
export interface PrincipalSelector {
  readonly users?: readonly string[] | undefined;
  readonly roles?: readonly string[] | undefined;
  /** Paths of units, such as `acme/finance`: whoever stands in one of them, or below. */
  readonly units?: readonly string[] | undefined;
  readonly agents?: readonly string[] | undefined;
  readonly runtimes?: readonly string[] | undefined;
  readonly clearanceAtLeast?: number | undefined;
}

/** Which earlier calls of the run count; those that are executing and earlier ones of the same message count too. */
export interface HistorySelector {
  readonly effects?: readonly EffectClass[] | undefined;
  readonly servers?: readonly string[] | undefined;
  readonly names?: readonly string[] | undefined;
  readonly states?: readonly ToolCallState[] | undefined;
  /** Only calls that were proposed within this time. */
  readonly withinMs?: number | undefined;
  /** Only calls with the same tool and the same arguments as this one. */
  readonly isSame?: boolean | undefined;
}

/** What must hold of a call, for its rule to match. */
export type PolicyCondition =
  | { readonly kind: "all"; readonly of: readonly PolicyCondition[] }
  | { readonly kind: "any"; readonly of: readonly PolicyCondition[] }
  | { readonly kind: "not"; readonly of: PolicyCondition }
  | {
      readonly kind: "argument";
      readonly at: string;
      readonly test: ArgumentTest;
      readonly value?: PolicyScalar | readonly PolicyScalar[] | undefined;
    }
  | {
      readonly kind: "provenance";
      readonly of: "all" | "destinations" | readonly string[];
      readonly are: "every" | "some";
      readonly from: readonly Origin[];
    }
  | { readonly kind: "seen"; readonly what: readonly SeenKind[] }
  | {
      readonly kind: "history";
      readonly calls: HistorySelector;
      /** Counts calls, or adds up the number at this pointer of their arguments. */
      readonly sum?: string | undefined;
      /** Whether this call counts as well. */
      readonly includesThis?: boolean | undefined;
      readonly moreThan: number;
    }
  | { readonly kind: "tool"; readonly is: ToolSelector }
  | { readonly kind: "principal"; readonly is: PrincipalSelector }
  | { readonly kind: "posture"; readonly is: Posture };

/** What is attached to a verdict: what the call may do only so. */
export type PolicyObligation =
  /** Members of the result, by pointer into its structured content, that nobody gets to see. */
  | { readonly kind: "redact"; readonly at: readonly string[] }
  /** Tighter bounds than the tool has anyway. */
  | { readonly kind: "limit"; readonly resultBytes?: number | undefined; readonly timeoutMs?: number | undefined }
  /** Of a call that is asked about: who may approve it, and how long an approval may take and be used. */
  | { readonly kind: "approval"; readonly by?: "anyone" | "other" | undefined; readonly withinMs?: number | undefined };

/** One rule. */
export interface PolicyRule {
  readonly id: string;
  readonly description?: string | undefined;
  readonly verdict: PolicyVerdict;
  readonly tools?: ToolSelector | undefined;
  readonly principals?: PrincipalSelector | undefined;
  readonly when?: PolicyCondition | undefined;
  /** Why, in words that the model and the people who are asked can read. */
  readonly reason?: string | undefined;
  readonly conditions?: readonly PolicyObligation[] | undefined;
}

/** A policy: its rules, in any order. */
export interface PolicyDocument {
  readonly version: 1;
  readonly description?: string | undefined;
  readonly rules: readonly PolicyRule[];
}

/** How much a policy may hold. */
export const POLICY_LIMITS = {
  ruleCount: 1_000,
  conditionDepth: 8,
  /** Conditions of one rule. */
  conditionCount: 64,
  listCount: 200,
  textChars: 500,
} as const;

const text = z.string().min(1).max(POLICY_LIMITS.textChars);
const list = <Item extends z.ZodType>(item: Item) => z.array(item).min(1).max(POLICY_LIMITS.listCount).readonly();
const pointer = z
  .string()
  .max(POLICY_LIMITS.textChars)
  .regex(/^(\/([^/~]|~[01])*)+$/, "must be a JSON pointer, such as /amount");
const unit = z.string().regex(/^[\w.-]+(\/[\w.-]+)*$/, "must be a path of units, such as acme/finance");
const whole = z.int().min(0);

const toolSelector = z
  .strictObject({
    effects: list(z.enum(EFFECT_CLASSES)).optional(),
    servers: list(text).optional(),
    names: list(text).optional(),
    approve: list(z.enum(APPROVE_MODES)).optional(),
    isClassified: z.boolean().optional(),
  })
  .meta({ id: "ToolSelector" });

const principalSelector = z
  .strictObject({
    users: list(text).optional(),
    roles: list(text).optional(),
    units: list(unit).optional(),
    agents: list(text).optional(),
    runtimes: list(text).optional(),
    clearanceAtLeast: whole.optional(),
  })
  .meta({ id: "PrincipalSelector" });

const historySelector = z.strictObject({
  effects: list(z.enum(EFFECT_CLASSES)).optional(),
  servers: list(text).optional(),
  names: list(text).optional(),
  states: list(z.enum(TOOL_CALL_STATES)).optional(),
  withinMs: z.int().min(1).optional(),
  isSame: z.boolean().optional(),
});

const scalar = z.union([z.string().max(POLICY_LIMITS.textChars), z.number(), z.boolean(), z.null()]);
// Keys of the table are its tests, and it has some.
const TESTS = Object.keys(ARGUMENT_TESTS) as unknown as readonly [ArgumentTest, ...ArgumentTest[]];

const policyConditionSchema: z.ZodType<PolicyCondition> = z
  .lazy(() =>
    z.discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("all"), of: list(policyConditionSchema) }),
      z.strictObject({ kind: z.literal("any"), of: list(policyConditionSchema) }),
      z.strictObject({ kind: z.literal("not"), of: policyConditionSchema }),
      z.strictObject({
        kind: z.literal("argument"),
        at: pointer,
        test: z.enum(TESTS),
        value: z.union([scalar, list(scalar)]).optional(),
      }),
      z.strictObject({
        kind: z.literal("provenance"),
        of: z.union([z.enum(["all", "destinations"]), list(pointer)]),
        are: z.enum(["every", "some"]),
        from: list(z.enum(ORIGINS)),
      }),
      z.strictObject({ kind: z.literal("seen"), what: list(z.enum(SEEN_KINDS)) }),
      z.strictObject({
        kind: z.literal("history"),
        calls: historySelector,
        sum: pointer.optional(),
        includesThis: z.boolean().optional(),
        moreThan: z.number().min(0),
      }),
      z.strictObject({ kind: z.literal("tool"), is: toolSelector }),
      z.strictObject({ kind: z.literal("principal"), is: principalSelector }),
      z.strictObject({ kind: z.literal("posture"), is: z.enum(POSTURES) }),
    ]),
  )
  .meta({ id: "PolicyCondition" });

/** What is attached to a verdict. */
export const policyObligationSchema: z.ZodType<PolicyObligation> = z
  .discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("redact"), at: list(pointer) }),
    z.strictObject({
      kind: z.literal("limit"),
      resultBytes: z.int().min(256).optional(),
      timeoutMs: z.int().min(1).optional(),
    }),
    z.strictObject({
      kind: z.literal("approval"),
      by: z.enum(["anyone", "other"]).optional(),
      withinMs: z
        .int()
        .min(1_000)
        .max(90 * 86_400_000)
        .optional(),
    }),
  ])
  .meta({ id: "PolicyObligation" });

/** The document a policy is written in. */
export const policyDocumentSchema: z.ZodType<PolicyDocument> = z
  .strictObject({
    version: z.literal(1),
    description: text.optional(),
    rules: z
      .array(
        z
          .strictObject({
            id: z.string().regex(/^[a-z0-9][a-z0-9_.-]{0,63}$/, "must be a short lower-case name"),
            description: text.optional(),
            verdict: z.enum(POLICY_VERDICTS),
            tools: toolSelector.optional(),
            principals: principalSelector.optional(),
            when: policyConditionSchema.optional(),
            reason: text.optional(),
            conditions: list(policyObligationSchema).optional(),
          })
          .meta({ id: "PolicyRule" }),
      )
      .max(POLICY_LIMITS.ruleCount)
      .readonly(),
  })
  .meta({ id: "PolicyDocument" });
