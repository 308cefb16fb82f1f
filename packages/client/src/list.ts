/** Which page of a list. */
export interface ListOptions {
  /** 1 to 200. Default 50. */
  readonly limit?: number;
  /** `nextCursor` of the page before. Default: the first page. */
  readonly cursor?: string;
  /** By creation. Default `desc`. */
  readonly order?: "asc" | "desc";
}

/** Which conversations to list. */
export interface ConversationFilter extends ListOptions {
  /** Whether to list those that are archived. Default: only those that are not. */
  readonly archived?: "false" | "true" | "all";
  /** Only of this agent, by id or name. */
  readonly agent?: string;
  /** Words that their titles or messages hold, or begin a word that they hold. */
  readonly q?: string;
}

/** One page of a list; `nextCursor` is `null` on the last. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly nextCursor: string | null;
}

/** The query of a list: what was left out is not asked for. */
export function queryOf(options: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) if (value !== undefined) query.set(name, String(value));
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}
