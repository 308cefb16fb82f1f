/** Named statements of the event log. Columns are always named: a column added later must not break a cached plan. */
export const EVENT_PLACE = {
  name: "event_place",
  text: "select last_sequence, kept_sequence, replaced from signalbox.event_place($1, $2, $3)",
} as const;

export const READ_PAGE = {
  name: "read_page",
  text: `select sequence, item_id, revision, type, run_id, turn_id, trace_id, generation, data, at, more
    from signalbox.read_page($1, $2, $3, $4, $5, $6)`,
} as const;

export const READ_FEED = {
  name: "read_feed",
  text: `select place, conversation_id, sequence, item_id, revision, type, run_id, turn_id, trace_id, generation, data,
      at, shown, more
    from signalbox.read_feed($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
} as const;
