/**
 * What to make of a tool's words before anybody trusts them. `block`: something in them is made so that people do not see
 * it. `warn`: worth a look. A lint is a hint for whoever approves, and a reason not to trust a tool unseen; it is no proof
 * of good intentions.
 */
export type LintGrade = "warn" | "block";

export interface DefinitionLint {
  readonly grade: LintGrade;
  readonly code:
    | "hidden_text"
    | "invisible_markup"
    | "terminal_codes"
    | "look_alike_letters"
    | "look_alike_name"
    | "odd_name"
    | "instructions"
    | "schema_unusable";
  /** JSON pointer into the definition. */
  readonly pointer: string;
  readonly detail: string;
}

const LINTS_MAX = 50;
const TEXTS_MAX = 5_000;

interface Hidden {
  readonly code: DefinitionLint["code"];
  readonly form: RegExp;
  readonly what: string;
}

/** Characters and markup that a reader does not see and a model does. Joiners within emoji and scripts that need them stay. */
const HIDDEN: readonly Hidden[] = [
  {
    code: "hidden_text",
    // oxlint-disable-next-line no-misleading-character-class -- each stands for itself.
    form: /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]/u,
    what: "an invisible character",
  },
  {
    code: "hidden_text",
    form: /(?<![\p{L}\p{M}\p{Extended_Pictographic}\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![\p{L}\p{M}\p{Extended_Pictographic}])/u,
    what: "a joiner that joins nothing",
  },
  {
    code: "hidden_text",
    form: /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/u,
    what: "a character that turns the direction of text",
  },
  // oxlint-disable-next-line no-misleading-character-class -- each stands for itself.
  { code: "hidden_text", form: /[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/u, what: "a tag character" },
  {
    code: "invisible_markup",
    form: /<!--|<(?:script|style|template|noscript)\b|\bdisplay\s*:\s*none|\bvisibility\s*:\s*hidden|\bfont-size\s*:\s*0|\[\/\/\]:\s*#/i,
    what: "markup that is not shown",
  },
  {
    code: "terminal_codes",
    // oxlint-disable-next-line no-control-regex -- these are what is looked for.
    form: /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/u,
    what: "a control character",
  },
];

const INSTRUCTIONS =
  /\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|other|all)\b|\bdo not (?:tell|mention|inform|show|reveal)\b|\bwithout (?:telling|informing|asking)\b|<\/?(?:important|system|instructions?|secret)>|\b(?:important|attention|note to (?:the )?(?:ai|model|assistant))\s*:|\b(?:you must|always|before (?:using|calling) (?:this|any)[^.\n]{0,30})\b[^.\n]{0,80}\b(?:send|forward|include|add|read|call|append|bcc)\b|\b(?:contents? of (?:every|all|the) (?:earlier|previous)|system prompt|chain of thought|\.ssh|id_rsa|\.env\b|api[ _-]?keys?\b)/i;

/** Letters of other scripts that look like Latin ones, and digits that look like letters. */
const CONFUSABLE: Readonly<Record<string, string>> = {
  а: "a",
  ɑ: "a",
  α: "a",
  в: "b",
  с: "c",
  ϲ: "c",
  ԁ: "d",
  е: "e",
  ҽ: "e",
  ε: "e",
  ɡ: "g",
  һ: "h",
  і: "i",
  ι: "i",
  ı: "i",
  ӏ: "l",
  ј: "j",
  к: "k",
  κ: "k",
  м: "m",
  п: "n",
  ո: "n",
  ν: "v",
  о: "o",
  ο: "o",
  օ: "o",
  р: "p",
  ρ: "p",
  ԛ: "q",
  г: "r",
  ѕ: "s",
  т: "t",
  τ: "t",
  υ: "u",
  ս: "u",
  ѵ: "v",
  ԝ: "w",
  х: "x",
  χ: "x",
  у: "y",
  γ: "y",
  ᴢ: "z",
  "0": "o",
  "1": "l",
  "5": "s",
};

/** `names` are those of the tenant's other tools, without their servers. */
export function lintDefinition(
  definition: Readonly<Record<string, unknown>>,
  names: readonly string[],
): readonly DefinitionLint[] {
  const lints: DefinitionLint[] = [];
  for (const { pointer, text } of textsOf(definition)) lintText(lints, pointer, text);
  const { name } = definition;
  if (typeof name === "string") lintName(lints, name, names);
  return lints.slice(0, LINTS_MAX);
}

function lintText(lints: DefinitionLint[], pointer: string, text: string): void {
  for (const { code, form, what } of HIDDEN) {
    const found = form.exec(text);
    if (found !== null) lints.push({ grade: "block", code, pointer, detail: `${what} (${shown(found[0])})` });
  }
  const word = /[\p{L}\p{N}_]+/gu;
  for (const [each] of text.matchAll(word)) {
    if (isMixed(each)) {
      lints.push({
        grade: "warn",
        code: "look_alike_letters",
        pointer,
        detail: `"${each.slice(0, 40)}" mixes scripts`,
      });
      break;
    }
  }
  const told = INSTRUCTIONS.exec(text);
  if (told !== null) {
    lints.push({
      grade: "warn",
      code: "instructions",
      pointer,
      detail: `it tells the model what to do: "${told[0].slice(0, 80)}"`,
    });
  }
}

function lintName(lints: DefinitionLint[], name: string, names: readonly string[]): void {
  const pointer = "/name";
  if (!/^[A-Za-z0-9_./-]+$/.test(name)) {
    lints.push({
      grade: "warn",
      code: "odd_name",
      pointer,
      detail: "it has characters that names of tools do not have",
    });
  }
  const bones = skeleton(name);
  const alike = names.find((other) => other !== name && skeleton(other) === bones);
  if (alike !== undefined) {
    // A name in plain letters that differs in its case or its dashes is likely an accident; one in foreign letters is not.
    const grade = isMixed(name) || /[^\u0020-\u007e]/u.test(name) ? "block" : "warn";
    lints.push({ grade, code: "look_alike_name", pointer, detail: `it looks like "${alike.slice(0, 60)}"` });
  }
}

/** What a name looks like: letters that are taken for one another are one. */
function skeleton(name: string): string {
  const plain = name.normalize("NFKC").toLowerCase();
  return Array.from(plain)
    .map((each) => CONFUSABLE[each] ?? each)
    .join("")
    .replaceAll(/[\s_.\-/]+/gu, "");
}

function isMixed(word: string): boolean {
  return /\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}]/u.test(word);
}

function shown(found: string): string {
  const first = found.codePointAt(0) ?? 0;
  return found.length > 2 ? found.slice(0, 30) : `U+${first.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Every string and every name of a member, wherever it stands. */
function* textsOf(definition: Readonly<Record<string, unknown>>): Iterable<{ pointer: string; text: string }> {
  const open: { readonly pointer: string; readonly value: unknown }[] = [{ pointer: "", value: definition }];
  let count = 0;
  for (let at = open.pop(); at !== undefined && count < TEXTS_MAX; at = open.pop()) {
    const { pointer, value } = at;
    count += 1;
    if (typeof value === "string") yield { pointer, text: value };
    if (typeof value !== "object" || value === null) continue;
    for (const [name, each] of Object.entries(value).reverse()) {
      const place = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      if (!Array.isArray(value) && pointer !== "") yield { pointer: place, text: name };
      open.push({ pointer: place, value: each });
    }
  }
}
