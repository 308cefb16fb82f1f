/**
 * The policy of a platform that was given none. Reading is free. An effect that can be taken back is free while it goes
 * where the user said; one that cannot is asked for. What was read never decides where anything goes.
 */
import type { PolicyCondition, PolicyDocument } from "@signalbox/contract";

const HEARD_STRANGERS: PolicyCondition = { kind: "seen", what: ["untrusted"] };

/** Some value that says where something goes is not one that people, or a tool that is vouched for, gave. */
const FOREIGN_DESTINATION: PolicyCondition = {
  kind: "provenance",
  of: "destinations",
  are: "some",
  from: ["tool", "passage", "model"],
};

/** Some value of the call is one that people, or a tool that is vouched for, gave. */
const MEANT: PolicyCondition = {
  kind: "provenance",
  of: "all",
  are: "some",
  from: ["user", "system", "trusted_tool"],
};

const TAINTED: PolicyCondition = { kind: "provenance", of: "all", are: "some", from: ["tool", "passage", "model"] };

export const DEFAULT_POLICY: PolicyDocument = {
  version: 1,
  description: "Reading is free; effects go where the user said; what cannot be taken back is asked for.",
  rules: [
    { id: "read", verdict: "allow", tools: { effects: ["read"] } },
    { id: "lookup", verdict: "allow", tools: { effects: ["egress_read"] } },
    { id: "write", verdict: "allow", tools: { effects: ["write"] } },
    {
      id: "irreversible",
      verdict: "allow",
      tools: { effects: ["irreversible"], approve: ["never"] },
    },
    {
      id: "ask-always",
      verdict: "ask",
      tools: { approve: ["always"] },
      reason: "The operator wants every call of this tool to be approved.",
    },
    {
      id: "ask-irreversible",
      verdict: "ask",
      tools: { effects: ["irreversible"], approve: ["policy"], isClassified: true },
      reason: "What this call does cannot be taken back.",
    },
    {
      id: "ask-unclassified",
      verdict: "ask",
      tools: { isClassified: false },
      when: { kind: "posture", is: "dev" },
      reason: "Nobody has said yet what this tool can do.",
    },
    {
      id: "forbid-unclassified",
      verdict: "forbid",
      tools: { isClassified: false },
      when: { kind: "posture", is: "production" },
      reason: "Nobody has said yet what this tool can do.",
    },
    {
      id: "ask-foreign-destination",
      verdict: "ask",
      tools: { effects: ["write", "irreversible"] },
      when: { kind: "all", of: [HEARD_STRANGERS, FOREIGN_DESTINATION] },
      reason: "It goes to where the user did not say, and the run has read texts that nobody vouches for.",
    },
    {
      id: "ask-not-meant",
      verdict: "ask",
      tools: { effects: ["write", "irreversible"] },
      when: { kind: "all", of: [HEARD_STRANGERS, TAINTED, { kind: "not", of: MEANT }] },
      reason: "Nothing in this call is what the user said, and the run has read texts that nobody vouches for.",
    },
    {
      id: "ask-leak",
      verdict: "ask",
      tools: { effects: ["egress_read"], approve: ["policy"] },
      when: { kind: "seen", what: ["private", "untrusted"] },
      reason: "The run has read private data and texts that nobody vouches for; this call sends its arguments outside.",
    },
    {
      id: "ask-leak-of-tainted",
      verdict: "ask",
      tools: { effects: ["egress_read"], approve: ["never"] },
      when: { kind: "all", of: [{ kind: "seen", what: ["private", "untrusted"] }, TAINTED] },
      reason: "The run has read private data and texts that nobody vouches for; this call sends its arguments outside.",
    },
  ],
};
