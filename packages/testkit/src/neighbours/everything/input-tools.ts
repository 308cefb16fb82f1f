/**
 * Tools of the everything server that need something of their client before they can answer. Written for results that
 * ask for input; to clients of the era with a handshake the library sends the same as requests of the server.
 */
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  inputResponse,
  type InputRequest,
  type InputRequests,
  type McpServer,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { DEFAULTS_FORM, ENUMS_FORM, oneField } from "./form-schemas.ts";

interface Asked {
  /** How often it has asked. */
  readonly count: number;
}

/** One key for all servers of a process: whichever is asked next can read the state of the last. */
const states = createRequestStateCodec<Asked>({ key: "the everything server of a test, and of nothing else" });
export const verifyRequestState: typeof states.verify = (state, context) => states.verify(state, context);

const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });
const ask = (message: string, requestedSchema = oneField("name", "string")): InputRequest =>
  inputRequired.elicit({ message, requestedSchema });
const sample = (prompt: string): InputRequest =>
  inputRequired.createMessage({
    messages: [{ role: "user", content: { type: "text", text: prompt } }],
    maxTokens: 100,
  });

export function offerInputTools(server: McpServer): void {
  offerPushedTools(server);
  offerRepeated(server);
  needs(server, "test_input_required_result_elicitation", { inputRequests: { user_name: ask("What is your name?") } });
  needs(server, "test_input_required_result_sampling", {
    inputRequests: { capital: sample("What is the capital of France?") },
  });
  needs(server, "test_input_required_result_list_roots", {
    inputRequests: { client_roots: inputRequired.listRoots() },
  });
  needs(server, "test_missing_capability", { inputRequests: { sample: sample("Say ping.") } });
  needs(server, "test_streaming_elicitation", {
    inputRequests: { answer: ask("Which?", oneField("answer", "string")) },
  });
  const inputRequests = { confirm: ask("Go on?", oneField("ok", "boolean")) };
  needs(server, "test_input_required_result_request_state", { inputRequests, sealed: true, said: "state-ok" });
  needs(server, "test_input_required_result_tampered_state", { inputRequests, sealed: true });
  const several = {
    user_name: ask("What is your name?"),
    greeting: sample("Say hello."),
    client_roots: inputRequired.listRoots(),
  };
  needs(server, "test_input_required_result_multiple_inputs", { inputRequests: several, sealed: true });
  server.registerTool(
    "test_input_required_result_capabilities",
    { description: "asks what can be given" },
    async (context) => {
      // The library types the envelope as empty; what a client sent is in it all the same.
      const envelope = { ...context.mcpReq.envelope } as Readonly<Record<string, unknown>>;
      const said = envelope[CLIENT_CAPABILITIES_META_KEY];
      const declared = typeof said === "object" && said !== null ? said : {};
      const inputRequests = {
        ...("elicitation" in declared ? { elicited: ask("What is it?") } : {}),
        ...("sampling" in declared ? { sampled: sample("Say hi.") } : {}),
      };
      const answered = context.mcpReq.inputResponses !== undefined;
      return answered || Object.keys(inputRequests).length === 0 ? text("enough") : inputRequired({ inputRequests });
    },
  );
}

interface Wanted {
  readonly inputRequests: InputRequests;
  /** Whether the client carries a state from one call to the next. */
  readonly sealed?: boolean;
  readonly said?: string;
}

/** A tool that answers once what it asks for is there, each in the form it was asked for. */
function needs(server: McpServer, name: string, wanted: Wanted): void {
  const { inputRequests, sealed = false, said = "complete" } = wanted;
  server.registerTool(name, { description: "asks first" }, async (context) => {
    if (Object.keys(inputRequests).every((key) => isAnswered(context, key))) return text(said);
    return inputRequired({
      inputRequests,
      ...(sealed ? { requestState: await states.mint({ count: 1 }, context) } : {}),
    });
  });
}

function isAnswered({ mcpReq }: ServerContext, key: string): boolean {
  const response = inputResponse(mcpReq.inputResponses, key);
  if (response.kind !== "elicit") return response.kind !== "missing";
  const content = acceptedContent<Readonly<Record<string, unknown>>>(mcpReq.inputResponses, key);
  return content !== undefined && Object.keys(content).length > 0;
}

function offerRepeated(server: McpServer): void {
  server.registerTool("test_input_required_result_multi_round", { description: "asks twice" }, async (context) => {
    const count = context.mcpReq.requestState<Asked>()?.count ?? 0;
    if (count === 2) return text("both rounds answered");
    const requestState = await states.mint({ count: count + 1 }, context);
    return inputRequired({ inputRequests: { [`step${count + 1}`]: ask(`Step ${count + 1}?`) }, requestState });
  });
}

/** What clients of the era with a handshake are tested with. */
function offerPushedTools(server: McpServer): void {
  const takes = (name: string) =>
    fromJsonSchema<Readonly<Record<string, string>>>({
      type: "object",
      properties: { [name]: { type: "string" } },
      required: [name],
    });
  server.registerTool(
    "test_sampling",
    { description: "samples", inputSchema: takes("prompt") },
    ({ prompt = "" }, { mcpReq }) => {
      const answer = inputResponse(mcpReq.inputResponses, "completion");
      if (answer.kind === "missing") return inputRequired({ inputRequests: { completion: sample(prompt) } });
      return text(`LLM response: ${answer.kind === "sampling" ? JSON.stringify(answer.result.content) : "none"}`);
    },
  );
  server.registerTool(
    "test_elicitation",
    { description: "elicits", inputSchema: takes("message") },
    ({ message = "" }, { mcpReq }) => {
      const requestedSchema = oneField("response", "string");
      return elicited(mcpReq, inputRequired.elicit({ message, requestedSchema }), "User response");
    },
  );
  for (const [name, form] of [
    ["test_elicitation_sep1034_defaults", DEFAULTS_FORM],
    ["test_elicitation_sep1330_enums", ENUMS_FORM],
  ] as const) {
    server.registerTool(name, { description: "elicits a form" }, ({ mcpReq }) =>
      elicited(
        mcpReq,
        inputRequired.elicit({ message: "Please fill this in", requestedSchema: form }),
        "Elicitation completed",
      ),
    );
  }
}

function elicited(mcpReq: ServerContext["mcpReq"], request: InputRequest, said: string) {
  const answer = inputResponse(mcpReq.inputResponses, "form");
  if (answer.kind === "missing") return inputRequired({ inputRequests: { form: request } });
  const content = acceptedContent(mcpReq.inputResponses, "form") ?? {};
  const action = answer.kind === "elicit" ? answer.action : "none";
  return text(`${said}: action=${action}, content=${JSON.stringify(content)}`);
}
