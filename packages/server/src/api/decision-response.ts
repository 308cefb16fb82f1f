/**
 * What a decision brings along, by what is asked and the verb: one rule, whichever address it comes in at. Nothing that
 * nobody will read is taken.
 */
import {
  clientResultSchema,
  decideApprovalSchema,
  PlatformError,
  type Decision,
  type FieldError,
  type Hold,
} from "@signalbox/contract";
import { LIMITS, refusedVerb } from "@signalbox/core";
import { z } from "zod";
import type { Scope } from "./api-record.ts";
import type { CommandDesk } from "./command.ts";
import { fromBodyIssues } from "./problem.ts";

interface Brought {
  readonly hold: Hold;
  readonly decision: Decision;
  /** As the caller gave it; for `edit` an object with the `arguments`. */
  readonly response: unknown;
}

type Desk = Pick<CommandDesk, "editOf" | "answerProblems">;

const { reason, response: answer } = decideApprovalSchema.shape;
const refusal = z.strictObject({ reason });
const edit = z.strictObject({ arguments: z.unknown() });

/** Errors: `invalid_request`, `field_unknown`, `tool_arguments_invalid`, `payload_too_large`. */
export async function broughtAlong(desk: Desk, scope: Scope, brought: Brought): Promise<unknown> {
  const { hold, decision } = brought;
  const response = brought.response ?? null;
  if (Buffer.byteLength(JSON.stringify(response)) > LIMITS.decisionBytes) {
    throw new PlatformError("payload_too_large", `A response has at most ${LIMITS.decisionBytes} bytes as JSON.`);
  }
  // Refused with the verb, by whoever knows which there are.
  if (refusedVerb(hold.kind, decision) !== null) return response;
  switch (decision) {
    case "approve":
    case "resume":
      if (response !== null) refuse({ pointer: "/response", detail: `is nothing that ${decision} brings along` });
      return null;
    case "reject":
      return response === null ? null : parsed(refusal, response);
    case "edit":
      return await desk.editOf(scope, hold, response === null ? null : parsed(edit, response).arguments);
    case "respond":
      if (response === null) refuse({ pointer: "/response", detail: "is needed for the decision respond" });
      return responseTo(desk, hold, response);
  }
}

function responseTo(desk: Desk, hold: Hold, response: unknown): unknown {
  if (hold.kind === "approval") return parsed(answer.unwrap(), response);
  if (hold.kind === "client_tool") return parsed(clientResultSchema, response);
  if (hold.kind !== "input") return response;
  const problems = desk.answerProblems(hold, response);
  if (problems.length > 0) refuse(...problems);
  return response;
}

function parsed<Schema extends z.ZodType>(schema: Schema, response: unknown): z.output<Schema> {
  const read = schema.safeParse(response);
  if (read.success) return read.data;
  const issues = read.error.issues.map((issue) => ({ ...issue, path: ["response", ...issue.path] }));
  throw fromBodyIssues(new z.ZodError(issues));
}

function refuse(...fields: readonly [FieldError, ...FieldError[]] | readonly FieldError[]): never {
  const [first] = fields;
  throw new PlatformError("invalid_request", `${first?.pointer ?? ""} ${first?.detail ?? ""}.`, { fields });
}
