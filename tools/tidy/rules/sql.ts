import type { Finding } from "../finding.ts";
import { isPackageSource, type Repository } from "../repository.ts";
import { plainSql, sqlFunctions } from "../sql-text.ts";

const RULE = "sql";

const LOOKS_LIKE_SQL =
  /^\s*(select\s[\s\S]*\bfrom\b|select\s+[\w.]+\s*\(|insert\s+into\s|update\s+[\w."]+\s+set\s|delete\s+from\s|with\s+\w+\s+as\s*(materialized\s*)?\(|(create|alter|drop)\s+(or\s+replace\s+)?(unique\s+)?(table|role|user|database|schema|index|function|view|policy|trigger|type|sequence)\b|listen\s+\w|notify\s+\w|grant\s+\w+\s+(on|to)\b|truncate\s)/i;

const WRITES = /\b(insert\s+into|update\s+[\w."]+\s+(as\s+\w+\s+|\w+\s+)?set|delete\s+from|merge\s+into)\b/i;

/** Where SQL may stand: files of statements, and the supervisor that creates roles and databases. */
const STATEMENT_FILE = /^packages\/server\/src\/(?!api\/)(.*\/)?(statements\/[^/]+|[^/]*statements)\.ts$/;

export function checkSql(repository: Repository): readonly Finding[] {
  const findings: Finding[] = [];
  for (const [file, text] of repository.files) {
    if (isPackageSource(file)) {
      findings.push(...checkCode(repository, file));
    } else if (file.startsWith("packages/") && file.endsWith(".sql") && !file.endsWith("/schema.sql")) {
      findings.push(...checkStatements(file, text));
    }
  }
  return findings;
}

function checkCode(repository: Repository, file: string): readonly Finding[] {
  const findings: Finding[] = [];
  for (const { name: text, line } of repository.source(file).strings) {
    if (LOOKS_LIKE_SQL.test(text) && !STATEMENT_FILE.test(file)) {
      findings.push({ file, line, rule: RULE, message: "holds SQL; statements live in statement files" });
    }
    if (/pg_notify/i.test(text) && WRITES.test(text)) {
      findings.push({ file, line, rule: RULE, message: "rings a doorbell inside a write; ring it after the commit" });
    }
  }
  return findings;
}

function checkStatements(file: string, text: string): readonly Finding[] {
  const findings: Finding[] = [];
  for (const { name, body, line } of sqlFunctions(text)) {
    if (/\b(pg_notify|notify)\b/i.test(body) && WRITES.test(body)) {
      findings.push({
        file,
        line,
        rule: RULE,
        message: `${name} writes and notifies; ring the doorbell after the commit`,
      });
    }
    if (!/clock/i.test(name) && /\bclock_timestamp\s*\(/i.test(body)) {
      findings.push({
        file,
        line,
        rule: RULE,
        message: `${name} reads the clock itself; time comes from the clock function`,
      });
    }
  }
  plainSql(text)
    .split("\n")
    .forEach((row, at) => {
      if (/\bnow\s*\(\s*\)|\bcurrent_timestamp\b|\btransaction_timestamp\s*\(/i.test(row)) {
        findings.push({
          file,
          line: at + 1,
          rule: RULE,
          message: "takes the transaction's time; time comes from the clock function",
        });
      }
    });
  return findings;
}
