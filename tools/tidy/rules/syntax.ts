import type { Finding } from "../finding.ts";
import { isCode, isGenerated, type Repository } from "../repository.ts";

/** A file the parser cannot read would pass every other rule unseen. */
export function checkSyntax(repository: Repository): readonly Finding[] {
  return [...repository.files.keys()]
    .filter((file) => isCode(file) && !isGenerated(file))
    .flatMap((file) => repository.source(file).errors.map((message) => ({ file, line: 0, rule: "syntax", message })));
}
