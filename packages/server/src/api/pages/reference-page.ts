/** The API's reference as one page, made of the same OpenAPI document that programs read. */
import { errorTable } from "./error-page.ts";
import { html, readingPage, type Html } from "./html.ts";
import { fieldRows, schemaLink, tableOf, typeOf, type Schema } from "./schema-html.ts";

interface Media {
  readonly schema: Schema;
}

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<
    Record<string, { readonly description: string; readonly content?: Readonly<Record<string, Media>> }>
  >;
}

interface Description {
  readonly info: { readonly version: string; readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

interface Placed {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function referencePage(document: unknown): string {
  // Made by `openApiDocument`, of which only these parts are read.
  const description = document as Description;
  const groups = groupsOf(description);
  const { schemas } = description.components;
  return readingPage(
    "Signalbox API reference",
    html`<h2>API reference <small class="quiet">${description.info.version}</small></h2>
      <p>${description.info.description}</p>
      <p>
        Send a key as <code>Authorization: Bearer sbx_…</code>. Errors are problem documents (RFC 9457) with a
        <code>code</code> of the <a href="#errors">table of errors</a>. Lists take <code>limit</code>,
        <code>cursor</code> and <code>order</code>; a POST that creates honours <code>Idempotency-Key</code>.
      </p>
      <ul>
        ${groups.map(([, placed]) => placed.map(entryOf))}
        <li><a href="#schemas">Schemas</a></li>
        <li><a href="#errors">Errors</a></li>
      </ul>
      ${groups.map(([name, placed]) => html`<section><h2>${name}</h2>${placed.map(operationOf)}</section>`)}
      <section id="schemas"><h2>Schemas</h2>${Object.entries(schemas).map(schemaOf)}</section>
      <section id="errors"><h2>Errors</h2>${errorTable()}</section>`,
  );
}

/** By the resource that the address begins with. */
function groupsOf(description: Description): readonly (readonly [string, readonly Placed[]])[] {
  const groups = new Map<string, Placed[]>();
  for (const [path, operations] of Object.entries(description.paths)) {
    const [first = "", second = ""] = path.split("/").filter((part) => part !== "");
    const name = first === "v1" ? second : "without a key";
    const placed = groups.get(name) ?? [];
    groups.set(name, placed);
    for (const [method, operation] of Object.entries(operations)) {
      placed.push({ method: method.toUpperCase(), path, operation });
    }
  }
  return [...groups];
}

function entryOf({ method, path, operation }: Placed): Html {
  return html`<li>
    <a href="#${operation.operationId}"><span class="method">${method}</span> ${path}</a>
  </li>`;
}

function operationOf({ method, path, operation }: Placed): Html {
  const { operationId, parameters = [], requestBody, responses } = operation;
  return html`<article id="${operationId}">
    <h3><span class="method">${method}</span> <code>${path}</code></h3>
    <p>${code(operation.summary)}. ${code(operation.description)} <span class="quiet">${operationId}</span></p>
    ${parameters.length === 0 ? "" : html`<h4>Parameters</h4>${tableOf(parameters.map(parameterRow))}`}
    ${requestBody === undefined ? "" : html`<h4>Body</h4>${Object.values(requestBody.content).map(bodyOf)}`}
    <h4>Answers</h4>
    ${Object.entries(responses).map(
      ([status, response]) =>
        html`<p>
          <strong>${status}</strong> ${code(response.description)}
          ${Object.entries(response.content ?? {}).map(
            ([type, { schema }]) => html`<span class="quiet">${type}</span> ${typeOf(schema)} `,
          )}
        </p>`,
    )}
  </article>`;
}

function parameterRow(parameter: NonNullable<Operation["parameters"]>[number]): Parameters<typeof tableOf>[0][number] {
  const { name, required = false, schema } = parameter;
  return { name, required, schema, note: `in the ${parameter.in}` };
}

function bodyOf({ schema }: Media): Html {
  return schema.$ref === undefined ? tableOf(fieldRows(schema)) : html`<p>${schemaLink(schema.$ref)}</p>`;
}

function schemaOf([name, schema]: readonly [string, Schema]): Html {
  const rows = fieldRows(schema);
  const examples = schema.examples ?? [];
  return html`<article id="schema-${name}">
    <h3>${name}</h3>
    ${rows.length === 0 ? html`<p>${typeOf(schema)}</p>` : tableOf(rows)}
    ${examples.map((example) => html`<p>For example <code>${JSON.stringify(example)}</code></p>`)}
  </article>`;
}

/** Words between backticks are code. */
function code(text: string): Html {
  return html`${text.split("`").map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part))}`;
}
