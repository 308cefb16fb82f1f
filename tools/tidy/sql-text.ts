/** A statement without its comments and string literals, line for line. Bodies in dollar quotes stay. */
export function plainSql(text: string): string {
  const blank = (found: string): string => found.replaceAll(/[^\n]/g, " ");
  return text.replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'/g, blank);
}

export interface SqlFunction {
  readonly name: string;
  readonly body: string;
  readonly line: number;
}

export function sqlFunctions(text: string): readonly SqlFunction[] {
  const plain = plainSql(text);
  const head = /create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+([\w."]+)/gi;
  const starts = [...plain.matchAll(head)];
  return starts.map((found) => {
    const rest = plain.slice(found.index);
    const quoted = /(\$\w*\$)([\s\S]*?)\1/.exec(rest);
    const atomic = /\bbegin\s+atomic\b([\s\S]*?)\bend\s*;/i.exec(rest);
    const body = quoted !== null && (atomic === null || quoted.index < atomic.index) ? quoted[2] : atomic?.[1];
    return { name: found[1] ?? "", body: body ?? "", line: plain.slice(0, found.index).split("\n").length };
  });
}
