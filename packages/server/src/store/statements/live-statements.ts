/** Doorbells. They are rung after the commit they tell of, on a session that writes nothing and waits for no disk. */
const DOORBELL_CHANNEL = "signalbox_doorbell";

export const LISTEN = `set synchronous_commit = off; listen ${DOORBELL_CHANNEL}`;

export const RING = {
  name: "ring",
  text: `select pg_notify('${DOORBELL_CHANNEL}', $1)`,
} as const;

export const NEWEST_SEQUENCES = {
  name: "newest_sequences",
  text: `select id as "conversationId", last_sequence as sequence, deleted_at is not null as gone
    from signalbox.conversation where id = any ($1)`,
} as const;
