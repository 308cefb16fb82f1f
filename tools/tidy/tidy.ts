/**
 * Tests the repository itself: layers, sizes, names, words, SQL, proofs, documents. Prints what it objects to, one
 * line each, and ends with 1 when there was anything.
 */
import { join } from "node:path";
import { printFinding, sortFindings, type Finding } from "./finding.ts";
import { readRepository, type Repository } from "./repository.ts";
import { checkCasts } from "./rules/casts.ts";
import { checkDeadFiles } from "./rules/dead-files.ts";
import { checkDocuments } from "./rules/documents.ts";
import { checkExports } from "./rules/exports.ts";
import { checkLayers } from "./rules/layers.ts";
import { checkNames } from "./rules/names.ts";
import { checkPackages } from "./rules/packages.ts";
import { checkProofs } from "./rules/proofs.ts";
import { checkSizes } from "./rules/sizes.ts";
import { checkSql } from "./rules/sql.ts";
import { checkSyntax } from "./rules/syntax.ts";
import { checkWords } from "./rules/words.ts";

const RULES: readonly ((repository: Repository) => readonly Finding[])[] = [
  checkSyntax,
  checkLayers,
  checkSizes,
  checkNames,
  checkExports,
  checkCasts,
  checkWords,
  checkSql,
  checkProofs,
  checkDeadFiles,
  checkDocuments,
  checkPackages,
];

const root = process.argv[2] ?? join(import.meta.dirname, "../..");
const repository = readRepository(root);
const findings = sortFindings(RULES.flatMap((rule) => rule(repository)));
for (const finding of findings) {
  console.log(printFinding(finding));
}
console.log(
  findings.length === 0
    ? `tidy: ${RULES.length} rules over ${repository.files.size} files, nothing to object to`
    : `tidy: ${findings.length} objections`,
);
process.exitCode = findings.length === 0 ? 0 : 1;
