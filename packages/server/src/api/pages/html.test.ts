import { expect, it } from "vitest";
import { html, readingPage } from "./html.ts";
import { fieldRows, tableOf, typeOf } from "./schema-html.ts";

const HOSTILE = `<img src=x onerror="alert('1')">&`;
const HARMLESS = "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;";

it("writes what is filled in as text", () => {
  expect(html`<p title="${HOSTILE}">${HOSTILE}</p>`.source).toBe(`<p title="${HARMLESS}">${HARMLESS}</p>`);
  expect(html`${[1, "<", html`<b>${"<"}</b>`]}`.source).toBe("1&lt;<b>&lt;</b>");
  expect(readingPage(HOSTILE, html``)).toContain(`<title>${HARMLESS}</title>`);
});

it("writes a schema's own words as text too", () => {
  const schema = { type: "string", description: HOSTILE, pattern: "^<", default: "<b>" };
  const table = tableOf([{ name: HOSTILE, required: true, schema, note: "" }]).source;
  expect(table).toContain(`<code>${HARMLESS}</code>`);
  expect(table).toContain(`required, ${HARMLESS}, matches ^&lt;, default &quot;&lt;b&gt;&quot;`);
  expect(table).not.toMatch(/<img|<b>/);
});

it("names the fields of objects within objects, and what a field may be", () => {
  const inner = { type: "object", required: ["id"], properties: { id: { type: "string" } } };
  const schema = {
    type: "object",
    properties: {
      one: inner,
      many: { type: "array", items: inner },
      perhaps: { anyOf: [inner, { type: "null" }] },
      other: { $ref: "#/components/schemas/Other" },
    },
  };
  expect(fieldRows(schema).map(({ name, required }) => `${name}${required ? "!" : ""}`)).toEqual([
    "one",
    "one.id!",
    "many",
    "many[].id!",
    "perhaps",
    "perhaps.id!",
    "other",
  ]);
  expect(typeOf(schema.properties.perhaps).source).toBe("object | null");
  expect(typeOf(schema.properties.many).source).toBe("array of object");
  expect(typeOf(schema.properties.other).source).toBe('<a href="#schema-Other">Other</a>');
  expect(typeOf({ enum: ["a", null] }).source).toBe("<code>&quot;a&quot;</code> | <code>null</code>");
});
