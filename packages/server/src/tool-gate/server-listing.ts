/** What one listing of a server comes to: its tools with what there is to be said of them, and what cannot be used. */
import { clip } from "@signalbox/contract";
import { lintDefinition, type DefinitionLint, type Digest, type ListedDefinition } from "@signalbox/core";
import type { ArgumentSchemas } from "./argument-schema.ts";
import { isObject, type Json } from "./mcp-protocol.ts";
import { readListedTool, type ListedTool } from "./tool-definition.ts";
import { settingsOf, type ToolServerConfig } from "./tool-server.ts";

export interface LeftOut {
  readonly tool: string;
  readonly problem: string;
}

export interface ReadListing {
  readonly tools: readonly ListedDefinition[];
  readonly leftOut: readonly LeftOut[];
}

export interface ListingReader {
  readonly digest: Digest;
  readonly schemas: ArgumentSchemas;
  readonly config: ToolServerConfig;
  /** Names of the tools of other servers. */
  readonly otherNames: readonly string[];
}

const NAME_CHARS = 100;
const LEFT_OUT_MAX = 100;

export function readListing(entries: readonly Json[], reader: ListingReader): ReadListing {
  const listed = new Map<string, ListedTool>();
  const leftOut = new Map<string, string>();
  for (const entry of entries.filter(isObject)) {
    const tool = readListedTool(entry, reader.digest);
    if (typeof tool === "string") leftOut.set(clip(typeof entry.name === "string" ? entry.name : "", NAME_CHARS), tool);
    // Of two tools under one name nobody can say which a call would reach.
    else if (listed.has(tool.tool)) leftOut.set(tool.tool, "it is listed twice");
    else listed.set(tool.tool, tool);
  }
  for (const name of leftOut.keys()) listed.delete(name);
  const names = [...reader.otherNames, ...listed.keys()];
  return {
    tools: [...listed.values()].map((tool) => ({
      ...tool,
      lints: lintsOf(tool, names, reader.schemas),
      settings: settingsOf(reader.config, tool.tool),
    })),
    leftOut: [...leftOut].slice(0, LEFT_OUT_MAX).map(([tool, problem]) => ({ tool, problem })),
  };
}

function lintsOf(tool: ListedTool, names: readonly string[], schemas: ArgumentSchemas): readonly DefinitionLint[] {
  const { definition, definitionHash } = tool;
  const { inputSchema, outputSchema } = definition;
  const unusable = (member: string, schema: unknown, mark: string): readonly DefinitionLint[] => {
    if (!isObject(schema)) return [];
    const detail = schemas.unusable({ definitionHash: `${definitionHash}${mark}`, schema });
    return detail === null ? [] : [{ grade: "block", code: "schema_unusable", pointer: `/${member}`, detail }];
  };
  return [
    ...lintDefinition(definition, names),
    ...unusable("inputSchema", inputSchema, ""),
    ...unusable("outputSchema", outputSchema, OUTPUT_MARK),
  ];
}

/** A definition has two schemas; this keeps the one of results apart. */
const OUTPUT_MARK = " output";
