/** Tools of the everything server that answer with every kind of content, and tell what they do while they do it. */
import { fromJsonSchema, type McpServer } from "@modelcontextprotocol/server";

/** One red pixel, and a sound of no length. */
export const PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
const SILENCE_WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA=";

/** JSON Schema words that a relay must not lose. */
const RICH_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // oxlint-disable-next-line unicorn/no-thenable -- a word of JSON Schema, never awaited
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
} as const;

export interface ContentToolsOptions {
  /** Tells all subscribers that a list has changed. */
  readonly changed: (list: "tools" | "prompts") => void;
}

export function offerContentTools(server: McpServer, { changed }: ContentToolsOptions): void {
  const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });
  const says = (name: string, said: string, description = name): void => {
    server.registerTool(name, { description }, () => text(said));
  };
  says("test_simple_text", "This is a simple text response for testing.");
  says("test_reconnection", "Reconnection test completed.");
  server.registerTool("test_image_content", { description: "an image" }, () => ({
    content: [{ type: "image", data: PIXEL_PNG, mimeType: "image/png" }],
  }));
  server.registerTool("test_audio_content", { description: "a sound" }, () => ({
    content: [{ type: "audio", data: SILENCE_WAV, mimeType: "audio/wav" }],
  }));
  const resource = (uri: string, mimeType: string, said: string) => ({
    type: "resource" as const,
    resource: { uri, mimeType, text: said },
  });
  server.registerTool("test_embedded_resource", { description: "a resource" }, () => ({
    content: [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  }));
  server.registerTool("test_multiple_content_types", { description: "text, image and resource" }, () => ({
    content: [
      { type: "text", text: "Multiple content types test:" },
      { type: "image", data: PIXEL_PNG, mimeType: "image/png" },
      resource("test://mixed-content-resource", "application/json", JSON.stringify({ test: "data", value: 123 })),
    ],
  }));
  server.registerTool("test_error_handling", { description: "always fails" }, () => ({
    ...text("This tool intentionally returns an error for testing"),
    isError: true,
  }));
  server.registerTool(
    "json_schema_2020_12_tool",
    { description: "a rich schema", inputSchema: fromJsonSchema(RICH_SCHEMA) },
    () => text("taken"),
  );
  offerTellingTools(server, changed);
}

function offerTellingTools(server: McpServer, changed: ContentToolsOptions["changed"]): void {
  const done = { content: [{ type: "text" as const, text: "done" }] };
  server.registerTool("test_tool_with_logging", { description: "logs three times" }, async ({ mcpReq }) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await mcpReq.notify({ method: "notifications/message", params: { level: "info", data } });
    }
    return done;
  });
  server.registerTool("test_logging_tool", { description: "logs to those who asked for it" }, async ({ mcpReq }) => {
    await mcpReq.log("info", "the logging tool ran");
    return done;
  });
  server.registerTool("test_tool_with_progress", { description: "tells how far it is" }, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken ?? 0;
    for (const progress of [0, 50, 100]) {
      await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
    }
    return done;
  });
  server.registerTool("test_trigger_tool_change", { description: "changes the list of tools" }, () => {
    changed("tools");
    return done;
  });
  server.registerTool("test_trigger_prompt_change", { description: "changes the list of prompts" }, () => {
    changed("prompts");
    return done;
  });
  const message = { type: "string", "x-mcp-header": "Message" };
  const schema = { type: "object", properties: { message }, required: ["message"] };
  server.registerTool(
    "test_custom_header_tool",
    { description: "repeats its message in a header", inputSchema: fromJsonSchema(schema) },
    () => done,
  );
}
