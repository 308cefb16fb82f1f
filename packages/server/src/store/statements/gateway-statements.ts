/** Statements of the ledger of the gateway's clients. */
import { call } from "./record-statements.ts";

export const BEGIN_GATEWAY_CALL = call("begin_gateway_call", 17);
export const REFUSE_GATEWAY_CALL = call("refuse_gateway_call", 14);
export const SETTLE_GATEWAY_CALL = call("settle_gateway_call", 5);
export const NOTE_LATE_RESULT = call("note_late_result", 2);
export const TIDY_GATEWAY_CALLS = call("tidy_gateway_calls", 2);
export const CLIENT_HISTORY = call("client_history", 4);

export const ASK_GATEWAY_CALL = call("ask_gateway_call", 18);
export const ASKED_GATEWAY_CALL = call("asked_gateway_call", 3);
export const BEGIN_ASKED_CALL = call("begin_asked_call", 4);
export const CONTINUE_ASKED_CALL = call("continue_asked_call", 5);
export const REFUSE_ASKED_CALL = call("refuse_asked_call", 3);
export const WITHDRAW_ASKED_CALL = call("withdraw_asked_call", 2);
