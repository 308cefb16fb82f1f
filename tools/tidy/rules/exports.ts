import type { Finding } from "../finding.ts";
import { isPackageSource, type Repository } from "../repository.ts";

/** Only a package's index.ts hands on the exports of others, and it lists them by name. */
export function checkExports(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const file of [...repository.files.keys()].filter(isPackageSource)) {
    const isEntry = /^packages\/[^/]+\/src\/index\.ts$/.test(file);
    for (const { line, everything, from } of repository.source(file).reexports) {
      if (everything) {
        findings.push({ file, line, rule: "exports", message: `exports everything of ${from}; list the names` });
      } else if (!isEntry) {
        findings.push({ file, line, rule: "exports", message: `hands on ${from}; only a package's index.ts does` });
      }
    }
  }
  return findings;
}
