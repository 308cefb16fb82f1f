import type { Finding } from "../finding.ts";
import { isCode, isGenerated, type Repository } from "../repository.ts";

const CODE_LINES_MAX = 400;

/** Documents that are only read when they are short. */
const DOCUMENT_LINES_MAX: Readonly<Record<string, number>> = { "ARCHITECTURE.md": 200, "AGENTS.md": 60 };

export function checkSizes(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const [file, text] of repository.files) {
    const written = (isCode(file) || file.endsWith(".sql")) && !isGenerated(file) && !isDump(file);
    const max = DOCUMENT_LINES_MAX[file] ?? (written ? CODE_LINES_MAX : Number.POSITIVE_INFINITY);
    const count = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
    if (count > max) {
      findings.push({ file, line: 0, rule: "sizes", message: `has ${count} lines; the limit is ${max}` });
    }
  }
  return findings;
}

/** The schema dump is written by PostgreSQL. */
function isDump(file: string): boolean {
  return /(^|\/)schema\.sql$/.test(file);
}
