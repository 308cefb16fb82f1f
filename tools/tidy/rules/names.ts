import type { Finding } from "../finding.ts";
import { isCode, isGenerated, type Repository } from "../repository.ts";

/** Names that say nothing about what is inside: such a file collects everything. */
const DRAWERS: ReadonlySet<string> = new Set(["util", "utils", "helper", "helpers", "common", "misc", "types"]);

export function checkNames(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const file of repository.files.keys()) {
    if (!isGenerated(file)) {
      findings.push(...checkPath(file));
    }
  }
  return findings;
}

function checkPath(file: string): readonly Finding[] {
  const findings: Finding[] = [];
  const parts = file.split("/").map((part) => part.replace(/\..*$/, ""));
  for (const part of parts.flatMap((one) => one.split("-")).filter((one) => DRAWERS.has(one))) {
    findings.push({ file, line: 0, rule: "names", message: `"${part}" is a drawer; name the file for its concept` });
  }
  const stem = parts.at(-1) ?? "";
  if (isCode(file) && !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(stem)) {
    findings.push({ file, line: 0, rule: "names", message: "file names are kebab-case" });
  }
  if (/(^|\/)index\.ts$/.test(file) && !/^packages\/[^/]+\/src\/index\.ts$/.test(file)) {
    findings.push({ file, line: 0, rule: "names", message: "only a package has an index.ts" });
  }
  return findings;
}
