/** Schemas of the OpenAPI document as tables of fields. */
import { html, type Html, type HtmlPart } from "./html.ts";

/** Of JSON Schema, what our document uses. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}

export interface FieldRow {
  readonly name: string;
  readonly required: boolean;
  readonly schema: Schema;
  readonly note: string;
}

/** Objects within objects are written out this deep; deeper ones are only named. */
const DEPTH_LIMIT = 4;

export function tableOf(rows: readonly FieldRow[]): Html {
  if (rows.length === 0) return html`<p>No fields.</p>`;
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>Field</th>
          <th>Type</th>
          <th></th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ name, required, schema, note }) =>
            html`<tr>
              <td><code>${name}</code></td>
              <td>${typeOf(schema)}</td>
              <td>${[required ? "required" : "", note, ...limitsOf(schema)].filter((text) => text !== "").join(", ")}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** The fields of an object, those of the objects in it among them, each with its whole name. */
export function fieldRows(schema: Schema, prefix = "", depth = 0): readonly FieldRow[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, field]) => {
    const name = `${prefix}${key}`;
    const row = { name, required: schema.required?.includes(key) === true, schema: field, note: "" };
    if (depth >= DEPTH_LIMIT) return [row];
    const inner = objectIn(field);
    return inner === null ? [row] : [row, ...fieldRows(inner.schema, `${name}${inner.joint}`, depth + 1)];
  });
}

/** The object that a field is, may be or holds many of. */
function objectIn(field: Schema): { readonly schema: Schema; readonly joint: string } | null {
  if (field.properties !== undefined) return { schema: field, joint: "." };
  if (field.items?.properties !== undefined) return { schema: field.items, joint: "[]." };
  const [only, ...more] = [...(field.anyOf ?? []), ...(field.oneOf ?? [])].filter((each) => each.properties);
  return only === undefined || more.length > 0 ? null : { schema: only, joint: "." };
}

export function typeOf(schema: Schema): Html {
  if (schema.$ref !== undefined) return schemaLink(schema.$ref);
  if (schema.const !== undefined) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.enum !== undefined) return joined(schema.enum.map((value) => html`<code>${JSON.stringify(value)}</code>`));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return joined(choices.map(typeOf));
  if (schema.allOf !== undefined) return html`${schema.allOf.map(typeOf)}`;
  if (schema.items !== undefined) return html`array of ${typeOf(schema.items)}`;
  if (typeof schema.additionalProperties === "object" && schema.properties === undefined) {
    return html`object of ${typeOf(schema.additionalProperties)}`;
  }
  const types = [schema.type ?? "anything"].flat();
  return html`${types.join(" | ")}`;
}

export function schemaLink(reference: string): Html {
  const name = reference.slice(reference.lastIndexOf("/") + 1);
  return html`<a href="#schema-${name}">${name}</a>`;
}

function joined(parts: readonly Html[]): Html {
  return html`${parts.map((part, at): HtmlPart => (at === 0 ? part : [" | ", part]))}`;
}

/** Numbers that say nothing but "any integer" are left out. */
function limitsOf(schema: Schema): readonly string[] {
  const { minimum, maximum, minLength, maxLength, maxItems, pattern } = schema;
  const meant = (value: number | undefined): value is number =>
    value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  return [
    schema.description ?? "",
    meant(minimum) ? `at least ${minimum}` : "",
    meant(maximum) ? `at most ${maximum}` : "",
    meant(minLength) ? `at least ${minLength} characters` : "",
    meant(maxLength) ? `at most ${maxLength} characters` : "",
    meant(maxItems) ? `at most ${maxItems} items` : "",
    pattern === undefined ? "" : `matches ${pattern}`,
    schema.default === undefined ? "" : `default ${JSON.stringify(schema.default)}`,
  ];
}
