/** A table of immutable rows. Whatever a transaction that fails has changed is put back. */
export interface Change {
  readonly table: string;
  readonly key: string;
  readonly before: unknown;
  readonly after: unknown;
}

export class Journal {
  #undo: (() => void)[] | null = null;
  #changes: Change[] = [];

  begin(): void {
    if (this.#undo !== null) throw new Error("a transaction began inside another");
    this.#undo = [];
    this.#changes = [];
  }

  note(change: Change, undo: () => void): void {
    if (this.#undo === null) throw new Error(`${change.table} was changed outside a transaction`);
    this.#undo.push(undo);
    this.#changes.push(change);
  }

  commit(): readonly Change[] {
    this.#undo = null;
    return this.#changes;
  }

  rollback(): void {
    for (const undo of (this.#undo ?? []).reverse()) undo();
    this.#undo = null;
  }
}

export class Table<Row> {
  readonly name: string;
  readonly #rows = new Map<string, Row>();
  readonly #journal: Journal;

  constructor(name: string, journal: Journal) {
    this.name = name;
    this.#journal = journal;
  }

  get(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  /** The row, which must exist. */
  must(key: string): Row {
    const row = this.#rows.get(key);
    if (row === undefined) throw new Error(`${this.name} has no row ${key}`);
    return row;
  }

  set(key: string, row: Row): void {
    const before = this.#rows.get(key);
    this.#journal.note({ table: this.name, key, before: before ?? null, after: row }, () => {
      if (before === undefined) this.#rows.delete(key);
      else this.#rows.set(key, before);
    });
    this.#rows.set(key, row);
  }

  update(key: string, changes: Partial<Row>): Row {
    const row = { ...this.must(key), ...changes };
    this.set(key, row);
    return row;
  }

  /** Rows in the order in which their keys were first set. */
  where(matches: (row: Row) => boolean): readonly Row[] {
    return [...this.#rows.values()].filter((row) => matches(row));
  }

  all(): readonly Row[] {
    return [...this.#rows.values()];
  }
}
