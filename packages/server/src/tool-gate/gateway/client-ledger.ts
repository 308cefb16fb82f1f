/** What the gateway records of a client's call: its intent, and once, firmly, what it came to. */
import { asPlatformError, type ErrorCode } from "@signalbox/contract";
import type { GatewayRecord, Log } from "@signalbox/core";
import type { Settling } from "../../gates/settling.ts";
import { errorResult } from "../tool-result.ts";
import type { Answered, BegunCall } from "./gateway-calls.ts";

export interface ClientLedgerPorts {
  readonly record: Pick<GatewayRecord, "begin" | "settle">;
  readonly log: Log;
  readonly settling: Settling;
}

export class ClientLedger {
  readonly #ports: ClientLedgerPorts;

  constructor(ports: ClientLedgerPorts) {
    this.#ports = ports;
  }

  /**
   * As the record does. When it went away, the intent may have been committed all the same: nobody else
   * would ever close it.
   */
  async begin(intent: Parameters<GatewayRecord["begin"]>[0]): ReturnType<GatewayRecord["begin"]> {
    const { record, log, settling } = this.#ports;
    try {
      return await record.begin(intent);
    } catch (thrown) {
      const error = asPlatformError(thrown);
      if (!error.facts.retryable) throw error;
      const { json: resultJson, summary: resultSummary } = errorResult(`The call was not made. (${error.code})`);
      const notMade = { state: "failed", errorCode: error.code, resultJson, resultSummary } as const;
      await settling
        .firmly(() => record.settle({ ...notMade, callId: intent.callId }))
        .catch((lost: unknown) => log.error("an intent may be left open", lost, { gatewayCallId: intent.callId }));
      throw error;
    }
  }

  /** The result as the client gets it: told only once it is recorded. */
  async settled(
    call: Pick<BegunCall, "callId">,
    outcome: {
      readonly state: "succeeded" | "failed" | "unknown";
      readonly errorCode: ErrorCode | null;
      readonly json: string;
      readonly summary: string;
    },
  ): Promise<Answered> {
    const { record, log, settling } = this.#ports;
    const { state, errorCode, json: resultJson, summary: resultSummary } = outcome;
    const settlement = { callId: call.callId, state, errorCode, resultJson, resultSummary };
    try {
      await settling.firmly(() => record.settle(settlement));
      return resultJson;
    } catch (thrown) {
      log.error("the outcome of a client's call could not be recorded", thrown, { gatewayCallId: call.callId });
      return errorResult("The tool was called, but its outcome could not be recorded.").json;
    }
  }
}
