/** What a client reads while a person has not decided, as its revision of the protocol can say it. */
import type { AskedGatewayCall } from "@signalbox/core";
import { isObject, META_CAPABILITIES, type Json } from "../mcp-protocol.ts";
import { errorResult } from "../tool-result.ts";

/** Under this name the client answers whether it goes on waiting. */
const APPROVAL = "approval";

/** A result of MCP as JSON text. `requestState`: where the client can come back with one. */
export function pendingAnswer(
  asked: AskedGatewayCall,
  { title, meta, requestState }: { readonly title: string; readonly meta: Json; readonly requestState: string | null },
): string {
  const until = new Date(asked.expiresAtMs).toISOString();
  if (requestState === null) {
    return errorResult(
      `A person has to approve this call and has not decided yet (approval_pending, ${asked.holdId}). It was not made. ` +
        `Make exactly the same call again to find out; it waits until ${until}.`,
    ).json;
  }
  const message =
    `A person has to approve "${title}" before it is made (${asked.holdId}, until ${until}). ` +
    "Accept to wait for the decision, decline to give the call up.";
  const requestedSchema = { type: "object", properties: {} };
  const inputRequests = {
    [APPROVAL]: { method: "elicitation/create", params: { mode: "form", message, requestedSchema } },
  };
  return JSON.stringify({
    resultType: "input_required",
    ...(canShowForms(meta) ? { inputRequests } : {}),
    requestState,
    _meta: { "signalbox/approval": { id: asked.holdId, expiresAt: until } },
  });
}

/** What the client's user said to waiting; `accept` where nothing was said. */
export function answerToWaiting({ inputResponses }: Json): "accept" | "decline" | "cancel" {
  const answer = isObject(inputResponses) ? inputResponses[APPROVAL] : undefined;
  const action = isObject(answer) ? answer.action : undefined;
  return action === "decline" || action === "cancel" ? action : "accept";
}

/** A client is asked for what it said it can do, and for nothing else. */
function canShowForms(meta: Json): boolean {
  const capabilities = meta[META_CAPABILITIES];
  const elicitation = isObject(capabilities) ? capabilities.elicitation : undefined;
  return isObject(elicitation) && (isObject(elicitation.form) || elicitation.url === undefined);
}
