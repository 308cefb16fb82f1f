import { PlatformError } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";

export const agentsCommand: Command = {
  name: "agents",
  summary: "List, show and create agents",
  usage: `signalbox agents                    list
signalbox agents show NAME
signalbox agents create NAME --model provider/model [--runtime langgraph|claude_sdk]
                        [--instructions TEXT] [--tool server/tool …]`,
  options: {
    ...CONNECTION_OPTIONS,
    model: { type: "string" },
    runtime: { type: "string" },
    instructions: { type: "string" },
    tool: { type: "string", multiple: true },
  },
  async run(call) {
    const [verb = "list", name, ...rest] = call.words;
    if (rest.length > 0) throw new UsageError("too many words");
    if (verb === "list") return list(call);
    if (name === undefined) throw new UsageError("name an agent");
    if (verb === "show") return show(call, name);
    if (verb === "create") return create(call, name);
    throw new UsageError(`there is no "agents ${verb}"`);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const { data } = await clientOf(call).agents.list({ limit: 200, order: "asc" });
  if (call.terminal.json) call.terminal.value(data);
  else if (data.length === 0) call.terminal.line("No agents yet. Make one with `signalbox agents create`.");
  else
    call.terminal.table(
      data.map((agent) => [
        agent.name,
        agent.runtime,
        agent.model,
        agent.tools.map((tool) => tool.reference).join(" "),
      ]),
    );
  return EXIT.done;
}

async function show(call: CommandCall, name: string): Promise<ExitCode> {
  const agent = await clientOf(call).agents.get(name);
  if (call.terminal.json) call.terminal.value(agent);
  else {
    call.terminal.table([
      ["name", agent.name],
      ["id", agent.id],
      ["revision", String(agent.revision)],
      ["runtime", agent.runtime],
      ["model", agent.model],
      ...agent.tools.map((tool) => ["tool", `${tool.reference} (${tool.effect}, ${tool.grade})`]),
      ["instructions", agent.instructions],
    ]);
  }
  return EXIT.done;
}

async function create(call: CommandCall, name: string): Promise<ExitCode> {
  const model = textFlag(call, "model");
  if (model === undefined) throw new UsageError("name a model with --model provider/model");
  const runtime = textFlag(call, "runtime");
  const instructions = textFlag(call, "instructions");
  const tools = call.flags.tool;
  const agent = await clientOf(call).agents.create({
    name,
    model,
    ...(runtime === undefined ? {} : { runtime }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(Array.isArray(tools) ? { tools: tools.map(toolName) } : {}),
  });
  if (call.terminal.json) call.terminal.value(agent);
  else call.terminal.line(`created ${agent.name} (${agent.id})`);
  return EXIT.done;
}

function toolName(value: string | boolean): string {
  if (typeof value === "string") return value;
  throw new PlatformError("invalid_request", "A tool is named server/tool.");
}
