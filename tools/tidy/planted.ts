import type { Finding } from "./finding.ts";
import { repositoryOf, type Repository } from "./repository.ts";

/** A repository that exists only in a test: paths and texts. */
export function planted(files: Readonly<Record<string, string>>): Repository {
  return repositoryOf(new Map(Object.entries(files)));
}

export function said(findings: readonly Finding[]): readonly string[] {
  return findings.map(({ file, line, message }) => `${file}:${line} ${message}`);
}
