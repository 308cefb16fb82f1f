/** Errors become RFC 9457 problem documents here and nowhere else. */
import { randomUUID } from "node:crypto";
import { PlatformError, type FieldError, type Problem } from "@signalbox/contract";
import type { FastifyError } from "fastify";
import { ZodError } from "zod";

export function problemOf(error: PlatformError, request: { readonly id: string; readonly url: string }): Problem {
  const facts = error.facts;
  return {
    type: `/errors/${error.code}`,
    title: facts.title,
    status: facts.status,
    detail: error.detail,
    instance: request.url.split("?")[0] ?? "/",
    code: error.code,
    fault: facts.fault,
    retryable: facts.retryable,
    requestId: request.id,
    errors: error.fields.map((field) => ({ ...field })),
    ...error.extra,
  };
}

/** What Fastify, the parser or a schema threw, in our words. An error nobody expected gets an id and stays private. */
export function fromThrown(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) return thrown;
  if (thrown instanceof ZodError) return fromZod(thrown);
  const code = thrown instanceof Error && "code" in thrown ? (thrown as FastifyError).code : null;
  switch (code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new PlatformError("payload_too_large", undefined, { cause: thrown });
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new PlatformError("unsupported_media_type", undefined, { cause: thrown });
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
      return new PlatformError("malformed_json", "The body is empty or shorter than announced.", { cause: thrown });
    default:
      return new PlatformError("internal", `Something failed inside the platform (error ${randomUUID()}).`, {
        cause: thrown,
      });
  }
}

function fromZod(error: ZodError): PlatformError {
  const fields: FieldError[] = [];
  let unknown = false;
  for (const issue of error.issues) {
    if (issue.code === "unrecognized_keys") {
      unknown = true;
      for (const key of issue.keys)
        fields.push({ pointer: pointerOf([...issue.path, key]), detail: "There is no such field." });
    } else {
      fields.push({ pointer: pointerOf(issue.path), detail: issue.message });
    }
  }
  const named = fields.map((field) => (field.pointer === "" ? "the body" : field.pointer)).join(", ");
  return unknown
    ? new PlatformError("field_unknown", `The request has a field that does not exist: ${named}.`, { fields })
    : new PlatformError("invalid_request", `The request is not valid at ${named}.`, { fields });
}

/** RFC 6901 */
function pointerOf(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
