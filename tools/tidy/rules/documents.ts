import { posix } from "node:path";
import type { Finding } from "../finding.ts";
import { isGenerated, type Repository } from "../repository.ts";

const RULE = "documents";

const CHECKLISTS = ["endpoint", "event", "error-code", "gate", "executor", "migration"] as const;
const REQUIRED = ["README.md", "ARCHITECTURE.md", "AGENTS.md", "REVIEW.md", "LICENSE", "docs/glossary.md"] as const;

/** Paths that exist on one machine only. */
const MACHINE_PATH = /(?:^|[\s"'`(=])(\/(?:home|root|Users|work)\/[\w.-]+)/;

/** A section of a document, or a code of a list, that the reader does not have. Standards have a number of their own. */
const ELSEWHERE = /(?:^|[^\w-])([A-Z]{3,}(?:\.md)? §[\d.]*|[A-Z]{1,3}-0\d{2})(?![\w-])/;

export function checkDocuments(repository: Repository): readonly Finding[] {
  return [
    ...checkPresence(repository),
    ...checkDecisions(repository),
    ...checkLinks(repository),
    ...checkReadme(repository),
    ...checkPlaces(repository),
  ];
}

function checkPresence(repository: Repository): readonly Finding[] {
  const due = [...REQUIRED, ...CHECKLISTS.map((name) => `docs/how-to/${name}.md`)];
  return due
    .filter((file) => !repository.files.has(file))
    .map((file) => ({ file, line: 0, rule: RULE, message: "is missing" }));
}

function checkDecisions(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  const files = [...repository.files.keys()].filter((file) => file.startsWith("docs/decisions/")).toSorted();
  files.forEach((file, at) => {
    const number = String(at + 1).padStart(4, "0");
    const name = posix.basename(file);
    if (!/^\d{4}-[a-z0-9-]+\.md$/.test(name)) {
      findings.push({ file, line: 0, rule: RULE, message: "decisions are named NNNN-title.md" });
    } else if (!name.startsWith(number)) {
      findings.push({
        file,
        line: 0,
        rule: RULE,
        message: `decisions are numbered without gaps; ${number} is due here`,
      });
    } else if (repository.files.get(file)?.startsWith(`# ${number} `) !== true) {
      findings.push({ file, line: 1, rule: RULE, message: `opens with "# ${number} " and its title` });
    }
  });
  return findings;
}

/** Relative links lead somewhere, and so do the repository paths a checklist names. */
function checkLinks(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  const exists = (path: string): boolean =>
    repository.files.has(path) ||
    [...repository.files.keys()].some((file) => file.startsWith(`${path.replace(/\/$/, "")}/`));
  for (const [file, text] of repository.files) {
    if (!file.endsWith(".md") || isGenerated(file)) {
      continue;
    }
    text.split("\n").forEach((row, at) => {
      const links = [...row.matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)].map((found) => found[1] ?? "");
      const named = file.startsWith("docs/how-to/")
        ? [...row.matchAll(/`((?:packages|tests|docs|proto|tools|scripts)\/[\w./-]*)`/g)].map((found) => found[1] ?? "")
        : [];
      const targets = [...links.map((link) => posix.join(posix.dirname(file), link)), ...named];
      for (const target of targets.filter((one) => !exists(one))) {
        findings.push({ file, line: at + 1, rule: RULE, message: `names ${target}, which does not exist` });
      }
    });
  }
  return findings;
}

/** The two commands come first. */
function checkReadme(repository: Repository): readonly Finding[] {
  const block = /```[a-z]*\n([\s\S]*?)```/.exec(repository.files.get("README.md") ?? "")?.[1] ?? "";
  const [first, second] = block.split("\n");
  const opens = first?.startsWith("npm start") === true && second?.startsWith("npm test") === true;
  return opens ? [] : [{ file: "README.md", line: 0, rule: RULE, message: "opens with npm start and npm test" }];
}

/** Whoever reads this repository has this repository: what it refers to is in it. */
function checkPlaces(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const [file, text] of repository.files) {
    if (isGenerated(file)) {
      continue;
    }
    text.split("\n").forEach((row, at) => {
      const path = MACHINE_PATH.exec(row)?.[1];
      if (path !== undefined) {
        findings.push({ file, line: at + 1, rule: RULE, message: `names ${path}, a path of one machine` });
      }
      const elsewhere = ELSEWHERE.exec(row)?.[1];
      if (elsewhere !== undefined) {
        const message = `refers to "${elsewhere}", which is not in this repository; give the reason here`;
        findings.push({ file, line: at + 1, rule: RULE, message });
      }
    });
  }
  return findings;
}
