/** Forms that the everything server asks its client to fill in: defaults of every primitive type, enums of every kind. */
import type { ElicitRequestFormParams } from "@modelcontextprotocol/server";

type Form = ElicitRequestFormParams["requestedSchema"];

export function oneField(name: string, type: "string" | "boolean"): Form {
  const field = type === "string" ? ({ type: "string" } as const) : ({ type: "boolean" } as const);
  return { type: "object", properties: { [name]: field }, required: [name] };
}

export const DEFAULTS_FORM: Form = {
  type: "object",
  properties: {
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  },
};

const numbered = (word: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${word}${index + 1}`);
const titled = (titles: readonly string[]) => titles.map((title, index) => ({ const: `value${index + 1}`, title }));

export const ENUMS_FORM: Form = {
  type: "object",
  properties: {
    untitledSingle: { type: "string", enum: numbered("option", 3) },
    titledSingle: { type: "string", oneOf: titled(["First Option", "Second Option", "Third Option"]) },
    legacyEnum: { type: "string", enum: numbered("opt", 3), enumNames: ["Option One", "Option Two", "Option Three"] },
    untitledMulti: { type: "array", minItems: 1, maxItems: 3, items: { type: "string", enum: numbered("option", 3) } },
    titledMulti: {
      type: "array",
      minItems: 1,
      maxItems: 3,
      items: { anyOf: titled(["First Choice", "Second Choice", "Third Choice"]) },
    },
  },
};
