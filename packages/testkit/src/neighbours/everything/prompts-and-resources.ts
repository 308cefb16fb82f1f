/** Prompts and resources of the everything server. */
import {
  acceptedContent,
  fromJsonSchema,
  inputRequired,
  ResourceTemplate,
  type McpServer,
} from "@modelcontextprotocol/server";
import { PIXEL_PNG } from "./content-tools.ts";
import { oneField } from "./form-schemas.ts";

export function offerPrompts(server: McpServer): void {
  const user = (said: string) => ({ role: "user" as const, content: { type: "text" as const, text: said } });
  const takes = (...names: readonly string[]) =>
    fromJsonSchema<Readonly<Record<string, string>>>({
      type: "object",
      properties: Object.fromEntries(names.map((name) => [name, { type: "string", description: name }])),
      required: [...names],
    });
  server.registerPrompt("test_simple_prompt", { description: "simple" }, () => ({
    messages: [user("This is a simple prompt for testing.")],
  }));
  server.registerPrompt(
    "test_prompt_with_arguments",
    { description: "two arguments", argsSchema: takes("arg1", "arg2") },
    ({ arg1, arg2 }) => ({
      messages: [user(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
    }),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "a resource", argsSchema: takes("resourceUri") },
    ({ resourceUri: uri = "" }) => ({
      messages: [
        {
          role: "user",
          content: { type: "resource", resource: { uri, mimeType: "text/plain", text: "Embedded resource content." } },
        },
        user("Please process the embedded resource above."),
      ],
    }),
  );
  server.registerPrompt("test_prompt_with_image", { description: "an image" }, () => ({
    messages: [
      { role: "user", content: { type: "image", data: PIXEL_PNG, mimeType: "image/png" } },
      user("Please analyze the image above."),
    ],
  }));
  server.registerPrompt("test_input_required_result_prompt", { description: "asks first" }, ({ mcpReq }) => {
    const given = acceptedContent<{ readonly context?: unknown }>(mcpReq.inputResponses, "user_context");
    if (typeof given?.context === "string") return { messages: [user(`With ${given.context}.`)] };
    const requestedSchema = oneField("context", "string");
    return inputRequired({
      inputRequests: { user_context: inputRequired.elicit({ message: "In which context?", requestedSchema }) },
    });
  });
}

export function offerResources(server: McpServer): void {
  const offer = (name: string, content: { readonly text: string } | { readonly blob: string }): void => {
    const mimeType = "text" in content ? "text/plain" : "image/png";
    server.registerResource(name, `test://${name}`, { description: name, mimeType }, ({ href: uri }) => ({
      contents: [{ uri, mimeType, ...content }],
    }));
  };
  offer("static-text", { text: "This is the content of the static text resource." });
  offer("static-binary", { blob: PIXEL_PNG });
  offer("watched-resource", { text: "Watched resource content." });
  server.registerResource(
    "template",
    new ResourceTemplate("test://template/{id}/data", { list: undefined }),
    { description: "data by id", mimeType: "application/json" },
    ({ href: uri }, { id }) => ({
      contents: [
        {
          uri,
          mimeType: "application/json",
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }),
        },
      ],
    }),
  );
}
