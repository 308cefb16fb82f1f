import type { Change } from "../memory/table.ts";

export interface ChangedRows<Row> {
  readonly before: Row | null;
  readonly after: Row;
}

/** A row as it was and as it is; the caller knows its type by the name of the table. */
export function rows<Row>(change: Change): ChangedRows<Row> {
  // The journal keeps rows as unknown; the table's name, by which the caller chose the type, says what they are.
  return { before: change.before as Row | null, after: change.after as Row };
}
