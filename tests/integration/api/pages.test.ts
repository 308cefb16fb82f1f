/** Pages for people: what a browser gets, what it is told not to do with it, and that programs get what they did. */
import { readdirSync, readFileSync } from "node:fs";
import { ERROR_CODES } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiRoutes } from "../../../packages/server/src/api/api-routes.ts";
import type { Route } from "../../../packages/server/src/api/route.ts";
import { ApiWorld } from "../../setup/api-world.ts";

const FOLDER = new URL("../../../packages/server/page/", import.meta.url);
const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";

let world: ApiWorld;

beforeAll(async () => {
  world = await ApiWorld.open();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function page(path: string, accept = BROWSER): Promise<{ readonly headers: Headers; readonly text: string }> {
  const response = await world.fetch(path, { headers: { accept } });
  expect(response.status).toBe(200);
  return { headers: response.headers, text: await response.text() };
}

async function statusOf(path: string): Promise<number> {
  const response = await world.fetch(path);
  // What is not read keeps its connection.
  await response.arrayBuffer();
  return response.status;
}

/** Addresses that a page makes a browser load or go to. */
function addressesIn(text: string): readonly string[] {
  return [...text.matchAll(/\s(?:href|src)="([^"]*)"/g)].map((match) => match[1] ?? "");
}

describe("every page", () => {
  it.each(["/", "/docs", "/errors/not_found"])("%s is plain, closed to others, and needs no key", async (path) => {
    const { headers, text } = await page(path);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|data:|\*/);
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    // Nothing inline, which the policy would refuse, and nothing from elsewhere.
    expect(text).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=/i);
    for (const address of addressesIn(text)) expect(address).toMatch(/^(\/(?!\/)|#)/);
  });

  it("loads only what is there", async () => {
    for (const path of ["/", "/docs", "/errors/internal"]) {
      for (const address of addressesIn((await page(path)).text)) {
        if (!address.startsWith("#")) expect(await statusOf(address), `of ${address}`).toBe(200);
      }
    }
  });
});

describe("the page at /", () => {
  it("is made of the files of its folder, and of nothing else there", async () => {
    for (const name of readdirSync(FOLDER).filter((each) => each !== "index.html")) {
      const { headers, text } = await page(`/page/${name}`, "*/*");
      expect(text).toBe(readFileSync(new URL(name, FOLDER), "utf8"));
      expect(headers.get("content-type")).toMatch(/^(text\/(javascript|css); charset=utf-8|image\/svg\+xml)$/);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    }
    for (const path of ["/page/", "/page/index.html", "/page/..%2fpackage.json", "/page/%2e%2e/package.json"]) {
      expect(await statusOf(path), `of ${path}`).toBe(404);
    }
  });

  it("writes what others said as text only, and asks nobody but this platform", () => {
    for (const name of readdirSync(FOLDER).filter((each) => each.endsWith(".js"))) {
      const text = readFileSync(new URL(name, FOLDER), "utf8");
      expect(text, `of ${name}`).not.toMatch(
        /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/,
      );
      expect(text, `of ${name}`).not.toMatch(/https?:\/\//);
      for (const match of text.matchAll(/from "([^"]+)"/g)) expect(match[1]).toMatch(/^\.\/[a-z-]+\.js$/);
    }
  });

  it("takes GET and HEAD, and says so", async () => {
    const head = await world.fetch("/", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const post = await world.refused("/", { body: {} });
    expect([post.status, post.body.code, post.headers.get("allow")]).toEqual([405, "method_not_allowed", "GET, HEAD"]);
  });
});

describe("the reference", () => {
  it("has every operation with its parameters and fields, every schema and every code", async () => {
    const { text } = await page("/docs");
    const description = await world.ask<{
      readonly paths: Record<string, Record<string, { operationId: string; parameters?: readonly { name: string }[] }>>;
      readonly components: { readonly schemas: Record<string, { readonly properties?: object }> };
    }>("/openapi.json");
    const articles = new Map(
      text.split('<article id="').map((part): [string, string] => [part.slice(0, part.indexOf('"')), part]),
    );
    for (const operation of Object.values(description.body.paths).flatMap((each) => Object.values(each))) {
      const article = articles.get(operation.operationId) ?? "";
      expect(article, `of ${operation.operationId}`).not.toBe("");
      for (const { name } of operation.parameters ?? []) expect(article).toContain(`<code>${name}</code>`);
    }
    for (const [name, schema] of Object.entries(description.body.components.schemas)) {
      const article = articles.get(`schema-${name}`) ?? "";
      expect(article, `of ${name}`).not.toBe("");
      for (const field of Object.keys(schema.properties ?? {})) expect(article).toContain(`<code>${field}</code>`);
    }
    for (const code of Object.keys(ERROR_CODES)) expect(text).toContain(`href="/errors/${code}"`);
  });

  it("refers to nothing that it does not have", async () => {
    const { text } = await page("/docs");
    const ids = new Set([...text.matchAll(/\sid="([^"]+)"/g)].map((match) => match[1]));
    const references = addressesIn(text).filter((address) => address.startsWith("#"));
    expect(references.length).toBeGreaterThan(50);
    for (const address of references) expect(ids, `of ${address}`).toContain(address.slice(1));
  });
});

describe("the examples of bodies", () => {
  const bodies = (): readonly Route[] => apiRoutes(world.services).filter(({ body }) => body !== null);

  it("are there for every route that takes one, and are what it takes", () => {
    expect(bodies().length).toBeGreaterThan(9);
    for (const { operationId, body } of bodies()) {
      const examples = body?.meta()?.examples;
      // Typed as anything: what stands there is what this test is about.
      const given = Array.isArray(examples) ? (examples as readonly unknown[]) : [];
      expect(given.length, `of ${operationId}`).toBeGreaterThan(0);
      for (const example of given) expect(body?.safeParse(example).error, `of ${operationId}`).toBeUndefined();
    }
  });

  it("stand in the description and in the reference", async () => {
    const { text } = await page("/docs");
    const description = await world.ask<{
      readonly components: { readonly schemas: Record<string, { readonly examples?: readonly unknown[] }> };
    }>("/openapi.json");
    for (const { body, operationId } of bodies()) {
      const { id, examples } = body?.meta() ?? {};
      expect(description.body.components.schemas[id ?? ""]?.examples, `of ${operationId}`).toEqual(examples);
    }
    expect(text).toContain("For example <code>{&quot;title&quot;:&quot;Order 7&quot;}</code>");
  });
});

describe("what an error code means", () => {
  it.each(Object.keys(ERROR_CODES))("is told to people and to programs: %s", async (code) => {
    const { headers, text } = await page(`/errors/${code}`);
    expect(text).toContain(`<code>${code}</code>`);
    expect(headers.get("vary")).toBe("accept");
    for (const accept of ["application/json", "*/*", "application/json, text/html;q=0.5"]) {
      const told = await world.ask(`/errors/${code}`, { headers: { accept } });
      expect(told.headers.get("content-type")).toContain("application/json");
      expect(told.headers.get("vary")).toBe("accept");
      expect(told.body.code).toBe(code);
    }
  });

  it("is not found for what is no code", async () => {
    const told = await world.refused("/errors/nonsense", { headers: { accept: BROWSER } });
    expect([told.status, told.body.code]).toEqual([404, "not_found"]);
  });
});
