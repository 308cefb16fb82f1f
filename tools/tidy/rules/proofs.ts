import type { Finding } from "../finding.ts";
import { isCode, isTest, type Repository } from "../repository.ts";

/**
 * `docs/invariants.md` numbers the promises and says for each which piece of work owes its proof and whether
 * that work is done. Tests cite them: `proves("INV-04", { sabotages: […], … })`.
 */
export interface Promised {
  readonly id: string;
  readonly owedBy: string;
  readonly status: "owed" | "done";
  readonly line: number;
}

const RULE = "proofs";
const INVARIANTS = "docs/invariants.md";
const ROW = /^\|\s*(INV-\d+)\s*\|(.*)\|\s*([^|]+?)\s*\|\s*([^|]+?)\s*\|$/;

export function checkProofs(repository: Repository): readonly Finding[] {
  const text = repository.files.get(INVARIANTS);
  if (text === undefined) {
    return [{ file: INVARIANTS, line: 0, rule: RULE, message: "is missing" }];
  }
  const { promised, findings } = readPromises(text);
  const known = new Set(promised.map(({ id }) => id));
  const proven = new Set<string>();
  for (const file of repository.files.keys()) {
    if (!isCode(file) || !/^(packages|tests)\//.test(file)) {
      continue;
    }
    for (const call of repository.source(file).calls.filter(({ callee }) => callee === "proves")) {
      const fault = faultOf(call, { known, isTestFile: isTest(file) });
      if (fault === null && call.firstArgument !== null) {
        proven.add(call.firstArgument);
      } else {
        findings.push({ file, line: call.line, rule: RULE, message: fault ?? "" });
      }
    }
  }
  for (const { id, line } of promised.filter((one) => one.status === "done" && !proven.has(one.id))) {
    findings.push({ file: INVARIANTS, line, rule: RULE, message: `${id} is marked done and no test proves it` });
  }
  return findings;
}

function faultOf(
  call: { readonly firstArgument: string | null; readonly listLengths: ReadonlyMap<string, number> },
  context: { readonly known: ReadonlySet<string>; readonly isTestFile: boolean },
): string | null {
  if (call.firstArgument === null) {
    return "a proof names its promise as a literal";
  }
  if (!context.known.has(call.firstArgument)) {
    return `proves ${call.firstArgument}, which nobody promised`;
  }
  if (!context.isTestFile) {
    return "a proof stands in a test file";
  }
  return (call.listLengths.get("sabotages") ?? 0) > 0
    ? null
    : "a proof names at least one sabotage its check must catch";
}

function readPromises(text: string): { readonly promised: readonly Promised[]; readonly findings: Finding[] } {
  const promised: Promised[] = [];
  const findings: Finding[] = [];
  text.split("\n").forEach((row, at) => {
    const [, id, , owedBy, status] = ROW.exec(row) ?? [];
    if (id === undefined || owedBy === undefined) {
      return;
    }
    const expected = `INV-${String(promised.length + 1).padStart(2, "0")}`;
    if (id !== expected) {
      findings.push({ file: INVARIANTS, line: at + 1, rule: RULE, message: `${id} stands where ${expected} is due` });
    }
    if (status !== "owed" && status !== "done") {
      findings.push({ file: INVARIANTS, line: at + 1, rule: RULE, message: `the status of ${id} is owed or done` });
    }
    promised.push({ id, owedBy, status: status === "done" ? "done" : "owed", line: at + 1 });
  });
  if (promised.length === 0) {
    findings.push({ file: INVARIANTS, line: 0, rule: RULE, message: "promises nothing" });
  }
  return { promised, findings };
}
