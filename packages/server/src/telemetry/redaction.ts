/**
 * What may be written of a value. Secrets are known by the name they stand under, at every depth, and by their form
 * within a text. Numbers of tokens and names of authors are no secrets.
 */
import { clip } from "@signalbox/contract";

const REDACTED = "[redacted]";
const DEPTH_LIMIT = 8;
const TEXT_LIMIT_CHARS = 8_000;

/** A name is a secret's when its last words are these, however it is written: `joinToken`, `X-Api-Key`, `DATABASE_URL`. */
const SECRET_NAME =
  /(^| )(token|secret|password|passwd|passphrase|authorization|cookie|credentials?|(api|private|access|signing|encryption) key|apikey|connection string|(database|direct|postgres) url)$/;

interface Form {
  readonly form: RegExp;
  readonly written: string;
}

/** Forms of secrets within a text. */
const FORMS: readonly Form[] = [
  { form: /\b(bearer|basic)\s+(?=[^\s"']*[A-Z0-9._=-])[\w.~+/=-]{6,}/gi, written: `$1 ${REDACTED}` },
  { form: /(:\/\/[^\s/:@]*:)[^\s/@]+@/g, written: `$1${REDACTED}@` },
  {
    form: /\b((?:[\w-]*(?:api[_-]?key|token|secret|password|passwd|credential))\\?["']?\s*[=:]\s*\\?["']?)[^\s"'&,;}\\]+/gi,
    written: `$1${REDACTED}`,
  },
  { form: /\b(sbx_|sk-|ghp_|xox[abp]-)[\w-]{8,}/g, written: `$1${REDACTED}` },
  { form: /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, written: REDACTED },
];

export function redactText(text: string): string {
  let safe = text;
  for (const { form, written } of FORMS) safe = safe.replace(form, written);
  return clip(safe, TEXT_LIMIT_CHARS);
}

/** A copy that can be written as JSON; what JSON cannot say becomes text, or is left out. */
export function redactFacts(facts: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const safe: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(facts)) safe[name] = redactMember(name, value, []);
  return safe;
}

function redactMember(name: string, value: unknown, above: readonly object[]): unknown {
  const isEmpty = value === null || value === undefined || value === "";
  return !isEmpty && SECRET_NAME.test(wordsOf(name)) ? REDACTED : redactValue(value, above);
}

function redactValue(value: unknown, above: readonly object[]): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (above.includes(value) || above.length >= DEPTH_LIMIT) return "[…]";
  const here = [...above, value];
  if (value instanceof Error) return redactText(`${value.name}: ${value.message}`);
  if (Array.isArray(value)) return value.map((each) => redactValue(each, here));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, redactMember(name, each, here)]));
}

/** `X-Api-Key`, `apiKey` and `API_KEY` are the same words. */
function wordsOf(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/[^A-Za-z0-9]+/g, " ")
    .trim()
    .toLowerCase();
}
