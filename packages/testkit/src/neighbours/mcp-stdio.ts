#!/usr/bin/env node
/**
 * A scripted MCP server over standard input and output, with the preset tools. What happened is read from the file of
 * calls, also after the process is gone: `mcp-stdio --calls FILE [--slow-ms N] [--huge-bytes N] [--name NAME]`.
 */
import { parseArgs } from "node:util";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { mcpInstance } from "./mcp-instance.ts";
import { presetTools } from "./preset-tools.ts";
import { newCallBook } from "./scripted-tool.ts";

const { values } = parseArgs({
  options: {
    calls: { type: "string" },
    name: { type: "string" },
    "slow-ms": { type: "string" },
    "huge-bytes": { type: "string" },
  },
});

const book = newCallBook({ callsFile: values.calls });
const tools = presetTools({ slowMs: numberOf(values["slow-ms"]), hugeBytes: numberOf(values["huge-bytes"]) });
serveStdio(() => mcpInstance({ name: values.name ?? "scripted", tools: () => tools, book, gone: null }));

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
