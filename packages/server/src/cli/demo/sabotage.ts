/**
 * Takes a promise away on purpose, in the database of a demonstration and nowhere else: what keeps it there are
 * functions of the record, and they are replaced by ones without the check.
 */
import { FUNCTION_DEFINITION } from "../../store/statements/catalog-statements.ts";

/** A database that may be harmed. */
export interface Victim {
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
}

export interface Edit {
  readonly function: string;
  readonly from: RegExp;
  readonly to: string;
}

/** The two locks a stale engine meets at a gate: the generation, and the slot that was unbound. */
const FENCE: readonly Edit[] = [
  { function: "enter_gate", from: /v_generation <> v_slot\.generation\s+or\s+/, to: "" },
  {
    function: "unbind_slots",
    from: /update signalbox\.slot/,
    to: "return; update signalbox.slot",
  },
];

/** What keeps a call while somebody is asked about its message. */
const WAIT: Edit = { function: "begin_pending", from: /h\.state = 'open'/, to: "h.state = 'never'" };

export async function breakApprovals(victim: Victim): Promise<void> {
  await sabotage(victim, WAIT);
}

export async function breakFence(victim: Victim): Promise<void> {
  for (const edit of FENCE) await sabotage(victim, edit);
}

/** Replaces a function of the record by one without its check. */
export async function sabotage(victim: Victim, edit: Edit): Promise<void> {
  const [known] = await victim.query<{ readonly definition: string }>(FUNCTION_DEFINITION, [edit.function]);
  const broken = known?.definition.replace(edit.from, edit.to);
  if (known === undefined || broken === undefined || broken === known.definition) {
    throw new Error(`${edit.function} is not what this sabotage was written for`);
  }
  await victim.query(broken);
}
