/** Named statements of the event log. Columns are always named: a column added later must not break a cached plan. */
export const HEAD = {
  name: "event_head",
  text: "select signalbox.event_head($1, $2, $3) as last_sequence",
} as const;

export const READ_EVENTS = {
  name: "read_events",
  text: `select sequence, item_id, revision, type, run_id, turn_id, trace_id, generation, data, at
    from signalbox.read_events($1, $2, $3, $4, $5)`,
} as const;
