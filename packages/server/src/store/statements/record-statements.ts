/** The record's functions as named statements: one call, one round trip, one transaction. */
export interface RecordStatement {
  readonly name: string;
  readonly text: string;
}

export function call(name: string, parameterCount: number): RecordStatement {
  const places = Array.from({ length: parameterCount }, (_, index) => `$${index + 1}`).join(", ");
  return { name, text: `select signalbox.${name}(${places}) as answer` };
}

export const ANSWERING = call("answering", 3);
export const ADMIT = call("admit_message", 29);
export const REQUEST_CANCEL = call("request_cancel", 4);
export const DELETE_CONVERSATION = call("delete_conversation", 4);
export const ERASE_DELETED = call("erase_deleted", 1);

export const CLAIM = call("claim", 3);
export const RECLAIM = call("reclaim", 3);
export const CHANGE_WORKER = call("change_worker", 3);
export const RELEASE = call("release", 2);
export const BIND_SLOT = call("bind_slot", 4);
export const TAKE_OVER = call("take_over", 3);
export const DROP_TAIL = call("drop_tail", 2);
export const SEAL = call("seal", 3);
export const FINISH = call("finish", 13);
export const TAKE_IN = call("take_in", 3);
export const NOTE_STALE = call("note_stale", 4);

export const SLOT_VIEW = call("slot_view", 1);
export const OPEN_MODEL_CALL = call("begin_model_call", 7);
export const SETTLE_MODEL_CALL = call("settle_model_call", 12);
export const OPEN_TOOL_CALL = call("begin_tool_call", 6);
export const RECORD_VERDICTS = call("record_verdicts", 5);
export const DENY_TOOL_CALL = call("refuse_tool_call", 7);
export const SETTLE_TOOL_CALL = call("settle_tool_call", 5);
export const LOSE_MODEL_CALL = call("lose_model_call", 1);
export const LOSE_TOOL_CALL = call("lose_tool_call", 1);

export const APPEND_TRANSCRIPT = call("append_transcript", 5);
export const APPEND_BEHIND = call("append_behind", 6);
export const APPEND_COMPACTED = call("append_compacted", 8);
export const CALL_OUTCOMES = call("call_outcomes", 2);
export const TRANSCRIPT_HEAD = call("transcript_head", 1);

export const REGISTER_PROCESS = call("register_process", 2);
export const RENEW_PROCESS = call("renew_process", 2);
export const RETAKE_PRESENCE = call("retake_presence", 2);
export const BURY_PROCESSES = call("bury_processes", 2);
export const UNREGISTER_PROCESS = call("unregister_process", 1);
export const FORGET_PROCESSES = call("forget_processes", 0);

export const BEGIN_UPKEEP = call("begin_upkeep", 1);
export const EMPTY_PARTS = call("empty_parts", 1);
export const EXPIRE_EVENTS = call("expire_events", 2);
export const PRUNE_KEYS = call("prune_keys", 2);
export const PRUNE_SLOTS = call("prune_slots", 2);
export const PRUNE_DELIVERIES = call("prune_deliveries", 2);
export const PRUNE_TRANSCRIPTS = call("prune_transcripts", 1);
export const END_ABANDONED = {
  name: "end_abandoned",
  text: `select conversation_id as "conversationId", last_sequence as sequence from signalbox.end_abandoned($1)`,
} as const;

export const STEERED = {
  name: "steered",
  text: `select conversation_id as "conversationId", generation, message_id as "messageId", text
    from signalbox.steered($1)`,
} as const;

export const CHECK_STORE = call("check_store", 2);
export const STORE_MARK = call("store_mark", 0);
export const OPEN_ERA = call("open_era", 2);
export const SESSIONS_AHEAD = call("sessions_ahead", 2);

export const TELL_OFFERS = call("tell_offers", 3);

export const READ_OFFERS = {
  name: "read_offers",
  text: "select runtimes, providers from signalbox.offers($1)",
} as const;

export const CANCELLED = {
  name: "cancelled",
  text: `select conversation_id as "conversationId", generation
    from signalbox.ownership where owner = $1 and cancel_at is not null`,
} as const;

export const CANCELLED_RUNS = {
  name: "cancelled_runs",
  text: `select id from signalbox.run where id = any($1)
    and cancel_requested_at <= signalbox.clock() - make_interval(secs => $2 / 1000.0)`,
} as const;

export const PAST_MESSAGES = {
  name: "past_messages",
  text: "select role, text, calls from signalbox.past_messages($1, $2)",
} as const;

export const BEGUN_TOOL_CALLS = {
  name: "begun_tool_calls",
  text: `select id from signalbox.tool_call
    where run_id = $1 and process = $2 and state = 'executing' and name = $4 and arguments_digest = $5
      and ($3::text is null or tool_use_id = $3)`,
} as const;

export const LOST_CALLS = {
  name: "lost_calls",
  text: "select kind, id from signalbox.lost_calls($1)",
} as const;

export const LOAD_TRANSCRIPT = {
  name: "load_transcript",
  text: `select position, kind, entry_id as "entryId", stream, body, digest
    from signalbox.load_transcript($1, $2, $3, $4)`,
} as const;

export const FIND_SNAPSHOT = {
  name: "find_snapshot",
  text: "select body from signalbox.snapshot where tenant_id = $1 and hash = $2",
} as const;

export const APPEND_GROUP = {
  name: "append_group",
  text: `select conversation_id as "conversationId", last_sequence as sequence
    from signalbox.append_group($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
} as const;

/** The same for a handful of conversations, without planning anew each time. */
export const APPEND_FEW = {
  name: "append_few",
  text: `select conversation_id as "conversationId", last_sequence as sequence
    from signalbox.append_few($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
} as const;
