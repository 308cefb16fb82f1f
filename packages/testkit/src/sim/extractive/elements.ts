/** Finds the outermost `<name attributes>…</name>` elements of a text, in one pass: the text may be large and hostile. */
export interface Element {
  readonly name: string;
  readonly attributes: string;
  readonly body: string;
}

export interface Elements {
  readonly elements: readonly Element[];
  /** The text without them. */
  readonly rest: string;
}

const TAG = /<(\/?)([a-zA-Z][\w-]{0,40})((?:\s[^<>]{0,400})?)>/g;

interface Tag {
  readonly closes: boolean;
  readonly name: string;
  readonly attributes: string;
  readonly from: number;
  readonly to: number;
}

/** `wanted` is asked with a name in lower case; elements of other names stay in the text. */
export function takeElements(text: string, wanted: (name: string) => boolean): Elements {
  const elements: Element[] = [];
  const rest: string[] = [];
  const tags = [...text.matchAll(TAG)].map(tagOf).filter((tag) => wanted(tag.name));
  let kept = 0;
  let depth = 0;
  let opening: Tag | null = null;
  for (const tag of tags) {
    if (opening === null) {
      if (!tag.closes) {
        opening = tag;
        depth = 1;
      }
    } else if (tag.name === opening.name) {
      depth += tag.closes ? -1 : 1;
      if (depth === 0) {
        rest.push(text.slice(kept, opening.from));
        elements.push({ name: opening.name, attributes: opening.attributes, body: text.slice(opening.to, tag.from) });
        kept = tag.to;
        opening = null;
      }
    }
  }
  rest.push(text.slice(kept));
  return { elements, rest: rest.join("") };
}

function tagOf(match: RegExpExecArray): Tag {
  const [whole, slash, name = "", attributes = ""] = match;
  return {
    closes: slash === "/",
    name: name.toLowerCase(),
    attributes,
    from: match.index,
    to: match.index + whole.length,
  };
}

/** The first of the named attributes that is there. */
export function attributeOf(element: Element, names: readonly string[]): string | null {
  for (const name of names) {
    const match = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"']+))`, "i").exec(element.attributes);
    const value = match?.[1] ?? match?.[2] ?? match?.[3];
    if (value !== undefined && value !== "") {
      return value;
    }
  }
  return null;
}
