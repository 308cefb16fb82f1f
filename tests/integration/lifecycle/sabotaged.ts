/** Breaks a function of the record, for a proof that must notice it. */
import pg from "pg";
import type { ClonedDatabase } from "../../setup/clone-database.ts";

/** Its text with one part replaced. */
export async function sabotaged(
  database: ClonedDatabase,
  name: string,
  change: { readonly part: string; readonly instead: string },
): Promise<void> {
  const client = new pg.Client(database.config);
  await client.connect();
  try {
    const { rows } = await client.query<{ text: string }>(
      "select pg_get_functiondef(p.oid) as text from pg_proc p where p.pronamespace = 'signalbox'::regnamespace and proname = $1",
      [name],
    );
    const text = rows[0]?.text ?? "";
    // Not an assertion: a sabotage that did not happen must never pass for a promise that was seen broken.
    if (!text.includes(change.part)) throw new Error(`${name} has no part that could be sabotaged so:\n${text}`);
    await client.query(text.replaceAll(change.part, change.instead));
  } finally {
    await client.end();
  }
}
