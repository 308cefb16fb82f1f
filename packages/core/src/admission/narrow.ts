/** Narrows what a message asks for to what its agent allows. Every refusal names its field; nothing is ignored. */
import { PlatformError, type ErrorCode, type FieldError } from "@signalbox/contract";
import type { MessageIntent } from "./intent.ts";

export interface Granted {
  readonly whenBusy: "enqueue" | "reject";
  readonly model: string;
}

interface Refusal extends FieldError {
  readonly code: ErrorCode;
}

/** Fields of a message that the language has and this release does not serve. */
const NOT_SERVED: ReadonlySet<string> = new Set([
  "attachments",
  "mode",
  "effort",
  "capabilities",
  "context",
  "channel",
  "speakable",
  "projectId",
]);

export function narrow(intent: MessageIntent): Granted {
  const refusals: Refusal[] = [];
  let whenBusy: Granted["whenBusy"] = "enqueue";
  for (const [field, value] of Object.entries(intent.asked)) {
    if (value === undefined || value === null) {
      continue;
    }
    const pointer = `/${field}`;
    if (field === "whenBusy") {
      if (value === "enqueue" || value === "reject") {
        whenBusy = value;
      } else {
        refusals.push(refuseWhenBusy(value, pointer));
      }
    } else if (field === "model") {
      if (value !== intent.agent.model) {
        refusals.push(refuseModel(intent.agent.model, pointer));
      }
    } else if (NOT_SERVED.has(field)) {
      refusals.push({ code: "field_not_supported", pointer, detail: `${field} is not served by this release.` });
    } else {
      refusals.push({ code: "field_unknown", pointer, detail: `A message has no field ${field}.` });
    }
  }
  throwFirst(refusals);
  return { whenBusy, model: intent.agent.model };
}

function refuseWhenBusy(value: unknown, pointer: string): Refusal {
  const known = value === "interrupt" || value === "rollback" || value === "steer";
  return known
    ? { code: "field_not_supported", pointer, detail: `whenBusy ${value} is not served by this release.` }
    : { code: "invalid_request", pointer, detail: "whenBusy is one of enqueue, reject." };
}

function refuseModel(granted: string, pointer: string): Refusal {
  return { code: "model_not_granted", pointer, detail: `This agent answers with ${granted}.` };
}

function throwFirst(refusals: readonly Refusal[]): void {
  const first = refusals[0];
  if (first === undefined) {
    return;
  }
  throw new PlatformError(first.code, first.detail, {
    fields: refusals.map(({ pointer, detail }) => ({ pointer, detail })),
  });
}
