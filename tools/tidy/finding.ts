/** One thing the repository's own rules object to. */
export interface Finding {
  readonly file: string;
  /** From 1; 0 when the whole file is meant. */
  readonly line: number;
  readonly rule: string;
  readonly message: string;
}

export function printFinding(finding: Finding): string {
  const place = finding.line > 0 ? `${finding.file}:${finding.line}` : finding.file;
  return `${place}  ${finding.message}  [${finding.rule}]`;
}

export function sortFindings(findings: readonly Finding[]): readonly Finding[] {
  return findings.toSorted((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
}
