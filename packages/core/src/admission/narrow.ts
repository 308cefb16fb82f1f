/** Narrows what a message asks for to what its agent allows. Every refusal names its field; nothing is ignored. */
import { PlatformError, WHEN_BUSY, type ErrorCode, type FieldError, type WhenBusy } from "@signalbox/contract";
import type { MessageIntent } from "./intent.ts";

export interface Granted {
  readonly whenBusy: WhenBusy;
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
  let whenBusy = intent.agent.whenBusy;
  for (const [field, value] of Object.entries(intent.asked)) {
    if (value === undefined || value === null) {
      continue;
    }
    const pointer = `/${field}`;
    if (field === "whenBusy") {
      const known = WHEN_BUSY.find((each) => each === value);
      whenBusy = known ?? whenBusy;
      if (known === undefined) {
        refusals.push({
          code: "invalid_request",
          pointer,
          detail: `whenBusy is one of ${WHEN_BUSY.join(", ")}.`,
        });
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
