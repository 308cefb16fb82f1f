/** Why what somebody answers to a question is no answer to it: its choices, its schema, or words at all. */
import type { FieldError, Hold } from "@signalbox/contract";
import { refusedAnswer } from "@signalbox/core";
import { ArgumentSchemas } from "../tool-gate/argument-schema.ts";
import { isObject } from "../tool-gate/mcp-protocol.ts";

const schemas = new ArgumentSchemas();

export function answerProblems(
  { id, subject }: Pick<Hold, "id" | "subject">,
  response: unknown,
): readonly FieldError[] {
  const refusal = refusedAnswer(subject, response);
  if (refusal !== null) return [{ pointer: "/response", detail: refusal }];
  const { schema } = subject;
  if (!isObject(schema)) return [];
  const checked = { definitionHash: id, schema };
  // Nobody could answer a question whose schema means nothing; whoever asked reads whatever is said.
  if (schemas.unusable(checked) !== null) return [];
  return schemas.check(checked, response).map(({ pointer, detail }) => ({ pointer: `/response${pointer}`, detail }));
}
