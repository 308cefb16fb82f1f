/** Pages for people: one to try the platform with, the reference of the API, and the few files that they load. */
import { readdirSync, readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import { FILE_HEADERS, PAGE_HEADERS } from "./page-headers.ts";
import { referencePage } from "./reference-page.ts";

/** The same from `src` and from `dist`. */
const FOLDER = new URL("../../../page/", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

interface Page {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: () => string;
}

/** By path. Only what stands here is served: no path is ever looked up on the disk. */
export type Pages = ReadonlyMap<string, Page>;

export function pagesOf(document: unknown): Pages {
  const pages = new Map<string, Page>();
  let reference: string | null = null;
  // Made when somebody reads it first: a platform that starts does not wait for it.
  pages.set("/docs", { headers: PAGE_HEADERS, body: () => (reference ??= referencePage(document)) });
  for (const name of readdirSync(FOLDER)) {
    const text = readFileSync(new URL(name, FOLDER), "utf8");
    const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
    if (name === "index.html") pages.set("/", { headers: PAGE_HEADERS, body: () => text });
    else if (type !== undefined) {
      pages.set(`/page/${name}`, { headers: { ...FILE_HEADERS, "content-type": type }, body: () => text });
    }
  }
  return pages;
}

export function mountPages(app: FastifyInstance, pages: Pages): void {
  for (const [path, page] of pages) {
    app.get(path, async (_request, reply) => reply.headers(page.headers).send(page.body()));
  }
}
