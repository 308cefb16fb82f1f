/**
 * A client's call that a person is asked about: kept for a while, told of as pending, and begun once it is approved. The
 * question stands in the ledger, so that the same call finds it again at any process, whatever died meanwhile.
 */
import type { GatewayCallId } from "@signalbox/contract";
import {
  callDigestText,
  LIMITS,
  type AskedGatewayCall,
  type Clock,
  type Digest,
  type GatewayRecord,
} from "@signalbox/core";
import { KEEP_ALIVE_COMMENT, type McpReply } from "../mcp-reply.ts";
import type { McpRequest } from "../mcp-request.ts";
import type { CatalogTool } from "../tool-catalog.ts";
import { errorResult } from "../tool-result.ts";
import { answerToWaiting, pendingAnswer } from "./pending-answer.ts";
import type { CarriedStates } from "./carried-state.ts";

export interface Waiting {
  readonly principal: string;
  readonly message: McpRequest;
  readonly reply: McpReply;
  readonly tool: CatalogTool;
  /** Of what the client asked for. */
  readonly callDigest: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly gone: AbortSignal;
  /** Whether the client has been told already that a person is asked. */
  readonly knows: boolean;
}

/** What may be carried out: judged once more, by today's policy and as it was approved. */
export interface ApprovedCall<Conditions> {
  readonly argumentsJson: string;
  readonly isEdited: boolean;
  readonly policyVersion: string;
  readonly conditions: Conditions;
}

export interface AskedCallPorts<Conditions> {
  readonly record: GatewayRecord;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly states: CarriedStates;
  readonly process: () => number;
  /** Judges what is about to be carried out; a text is the answer to a call that must not be made any more. */
  readonly judge: (
    asked: AskedGatewayCall,
  ) => Promise<Omit<ApprovedCall<Conditions>, "argumentsJson" | "isEdited"> | string>;
}

export type Begun<Conditions> = ApprovedCall<Conditions> & { readonly callId: GatewayCallId };

const ALIVE_EVERY = 4;

/** The call as it may be made, or what the client reads instead. */
export async function awaitDecision<Conditions>(
  ports: AskedCallPorts<Conditions>,
  waiting: Waiting,
  given: AskedGatewayCall,
): Promise<Begun<Conditions> | string> {
  const { record, clock, states } = ports;
  const { message, tool, principal, callDigest } = waiting;
  const { callId } = given;
  const said = waiting.knows ? answerToWaiting(message.params) : "accept";
  if (said === "decline") {
    await record.withdrawAsked(callId, principal);
  }
  // Whoever can come back is told at once; whoever comes back waits here, and so does whoever cannot.
  const patienceMs = said === "accept" && (waiting.knows || !message.modern) ? LIMITS.holdPatienceMs : 0;
  const untilMs = clock.monotonicMs() + patienceMs;
  let asked = said === "accept" ? given : ((await record.asked({ callId, principal, callDigest })) ?? given);
  for (let look = 1; ; look += 1) {
    if (asked.state === "authorized") {
      const begun = await beginApproved(ports, tool, asked);
      if (typeof begun === "string" || "conditions" in begun) return begun;
      asked = begun;
    }
    if (asked.state !== "awaiting_approval" && asked.state !== "executing") return ended(asked);
    const isOver = clock.monotonicMs() >= untilMs || waiting.gone.aborted;
    if (isOver) {
      const holder = { principal, server: tool.server, tool: tool.tool };
      const requestState = message.modern ? states.seal(callId, { kind: "waiting", upstream: null }, holder) : null;
      return pendingAnswer(asked, { title: tool.title, meta: message.meta, requestState });
    }
    await clock.sleep(LIMITS.holdPollMs, waiting.gone);
    if (look % ALIVE_EVERY === 0) showLife(waiting, look);
    asked = (await record.asked({ callId, principal, callDigest })) ?? asked;
  }
}

async function beginApproved<Conditions>(
  ports: AskedCallPorts<Conditions>,
  { server, tool, definitionHash }: CatalogTool,
  asked: AskedGatewayCall,
): Promise<Begun<Conditions> | AskedGatewayCall | string> {
  const { record, digest } = ports;
  const { callId, argumentsJson, isEdited } = asked;
  const judged = await ports.judge(asked);
  if (typeof judged === "string") return judged;
  const callDigest = digest.sha256Hex(callDigestText({ server, tool, definitionHash, argumentsJson }));
  const { policyVersion } = judged;
  const begun = await record.beginAsked({ callId, process: ports.process(), callDigest, policyVersion });
  return begun === "begun" ? { ...judged, callId, argumentsJson, isEdited } : begun;
}

/** The last word about a call: it is never made, or it was made and this is what came of it. */
function ended({ state, resultJson, detail }: AskedGatewayCall): string {
  if (resultJson !== null && resultJson !== "") return resultJson;
  if (state === "withdrawn") return errorResult("The call was given up; it was not made. (approval_rejected)").json;
  return errorResult(detail ?? `This call was made before; its outcome is recorded as ${state}.`).json;
}

/** To whoever wants to know how far the call is: that it waits. */
function showLife({ message, reply }: Waiting, look: number): void {
  const { progressToken } = message.meta;
  if (progressToken === undefined) {
    reply.frame(KEEP_ALIVE_COMMENT);
    return;
  }
  // Far below whatever the tool itself will count from.
  const params = { progressToken, progress: look * 1e-6, message: "A person is asked to approve this call." };
  const told = { jsonrpc: "2.0", method: "notifications/progress", params };
  reply.frame(`event: message\ndata: ${JSON.stringify(told)}\n\n`);
}
