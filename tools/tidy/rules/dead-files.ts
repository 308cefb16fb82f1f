import { posix } from "node:path";
import type { Finding } from "../finding.ts";
import { isCode, isGenerated, isTest, type Repository } from "../repository.ts";

/**
 * A file nothing mentions is dead. Mentioned means: its name stands in another file, or its folder's does (migrations
 * are read by folder). Whether a mentioned file is truly reached is knip's part.
 */
export function checkDeadFiles(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const file of repository.files.keys()) {
    if (isJudged(file) && !isMentioned(repository, file)) {
      findings.push({ file, line: 0, rule: "dead", message: "nothing mentions this file" });
    }
  }
  return findings;
}

function isJudged(file: string): boolean {
  const inTree = /^(packages\/[^/]+\/|tests\/|tools\/|scripts\/|bench\/|docs\/)/.test(file);
  const readByTool = /(^|\/)(package\.json|tsconfig\.json|index\.ts|README\.md)$/.test(file);
  return inTree && !readByTool && !isTest(file) && !isGenerated(file);
}

function isMentioned(repository: Repository, file: string): boolean {
  const name = posix.basename(file);
  const stem = name.replace(/\.(ts|mts)$/, "");
  const names = isCode(file) ? [name, `${stem}.js`] : [name, `${posix.basename(posix.dirname(file))}/`];
  for (const [other, text] of repository.files) {
    if (other !== file && names.some((one) => mentions(text, one))) {
      return true;
    }
  }
  return false;
}

function mentions(text: string, name: string): boolean {
  for (let at = text.indexOf(name); at !== -1; at = text.indexOf(name, at + 1)) {
    const before = text[at - 1] ?? " ";
    if (!/[\w-]/.test(before)) {
      return true;
    }
  }
  return false;
}
