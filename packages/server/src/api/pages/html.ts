/** HTML that is put together of text: whatever is filled in is text, unless it was made here. */

export class Html {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }
}

export type HtmlPart = Html | string | number | readonly HtmlPart[];

/** The tag of templates: `<b>${text}</b>`. */
export function html(strings: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  return new Html(strings.map((text, at) => text + sourceOf(parts[at] ?? "")).join(""));
}

/** A whole page to read, which loads its style from this platform and nothing else. */
export function readingPage(title: string, body: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        <link rel="icon" href="/page/icon.svg" />
        <link rel="stylesheet" href="/page/page.css" />
      </head>
      <body>
        <header>
          <h1>Signalbox</h1>
          <nav><a href="/">Try it</a><a href="/docs">API reference</a><a href="/openapi.json">OpenAPI</a></nav>
        </header>
        <div class="reading">${body}</div>
      </body>
    </html>`.source;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function sourceOf(part: HtmlPart): string {
  if (part instanceof Html) return part.source;
  if (typeof part === "object") return part.map(sourceOf).join("");
  return String(part).replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
