/** Two definitions of a tool member by member, so that a person sees exactly what changed. */
export interface DefinitionChange {
  /** JSON pointer to the member. */
  readonly pointer: string;
  /** Canonical where it is an object; absent members are `undefined`. */
  readonly before: unknown;
  readonly after: unknown;
}

const CHANGES_MAX = 200;

type Members = Readonly<Record<string, unknown>>;

/** At most 200 changes, by pointer; objects are compared by their members, everything else as a whole. */
export function diffDefinitions(before: Members, after: Members): readonly DefinitionChange[] {
  const changes: DefinitionChange[] = [];
  compare(changes, { pointer: "", before, after });
  return changes;
}

function compare(changes: DefinitionChange[], at: DefinitionChange): void {
  const { pointer, before, after } = at;
  if (changes.length >= CHANGES_MAX || isSame(before, after)) return;
  if (!isMembers(before) || !isMembers(after)) {
    changes.push(at);
    return;
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  for (const name of names) {
    const step = name.replaceAll("~", "~0").replaceAll("/", "~1");
    compare(changes, { pointer: `${pointer}/${step}`, before: before[name], after: after[name] });
  }
}

function isSame(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((each, place) => isSame(each, right[place]));
  }
  if (!isMembers(left) || !isMembers(right)) return false;
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => isSame(left[name], right[name]));
}

function isMembers(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
