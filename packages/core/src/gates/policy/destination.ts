/**
 * Values that say where something goes: an address, a link, the number of an account or a phone. Told by their form and by
 * the format in the tool's schema, never by the name of an argument. A link is one also in the middle of a text: shown
 * or fetched, it carries away what is written in it.
 */
import type { JsonObject } from "./facts.ts";

const FORMATS: ReadonlySet<unknown> = new Set(["email", "idn-email", "uri", "url", "iri", "hostname", "idn-hostname"]);
const MAIL = /^(?:[^<>]{0,100}<)?[^\s@<>]{1,100}@[^\s@<>]{1,253}>?$/;
const LINK = /\b(?:[a-z][a-z0-9+.-]{1,20}:\/\/|www\.|mailto:)[^\s"'<>()[\]{}]{1,2000}/gi;
const ACCOUNT = /^[A-Z]{2}\d{2}[A-Z0-9 ]{8,36}$/;
const PHONE = /^\+?[\d\s().-]{7,24}$/;
const DAY = /^\d{4}-\d{2}-\d{2}/;
const DIGITS_MIN = 7;

/** Longer texts are looked through up to here, and what is longer counts as one destination that nobody can place. */
const LOOK_CHARS = 64 * 1024;

export interface Destinations {
  /** The whole value is one. */
  readonly isWhole: boolean;
  /** Links within it. */
  readonly links: readonly string[];
}

const NONE: Destinations = { isWhole: false, links: [] };
const WHOLE: Destinations = { isWhole: true, links: [] };

export function destinationsIn(value: unknown, schema: JsonObject | null): Destinations {
  if (typeof value !== "string" || value === "") return NONE;
  if (value.length > LOOK_CHARS) return WHOLE;
  const text = value.trim();
  if (schema !== null && FORMATS.has(schema.format)) return WHOLE;
  if (MAIL.test(text) || ACCOUNT.test(text) || isPhone(text)) return WHOLE;
  if (!/[:.]/.test(text)) return NONE;
  const links = text.match(LINK) ?? [];
  return links.length === 1 && links[0] === text ? WHOLE : { isWhole: false, links };
}

function isPhone(text: string): boolean {
  return PHONE.test(text) && !DAY.test(text) && text.replaceAll(/\D/g, "").length >= DIGITS_MIN;
}
