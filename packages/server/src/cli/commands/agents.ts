import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  refuseFlags,
  textFlag,
  textFlags,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";

const CREATE_OPTIONS = {
  model: { type: "string" },
  runtime: { type: "string" },
  instructions: { type: "string" },
  tool: { type: "string", multiple: true },
} as const;

export const agentsCommand: Command = {
  name: "agents",
  summary: "List, show and create agents",
  usage: `signalbox agents [--limit 50] [--cursor CURSOR]          list
signalbox agents show NAME
signalbox agents create NAME --model provider/model [--runtime langgraph|claude_sdk]
                        [--instructions TEXT] [--tool server/tool …]`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...CREATE_OPTIONS },
  async run(call) {
    const [verb = "list", name, ...rest] = call.words;
    if (verb !== "list" && verb !== "show" && verb !== "create") throw new UsageError(`there is no "agents ${verb}"`);
    if (rest.length > 0 || (verb === "list" && name !== undefined)) throw new UsageError("too many words");
    if (verb !== "create") refuseFlags(call, Object.keys(CREATE_OPTIONS), "agents create");
    if (verb !== "list") refuseFlags(call, Object.keys(LIST_OPTIONS), "agents");
    if (verb === "list") return list(call);
    if (name === undefined) throw new UsageError("name an agent");
    return verb === "show" ? show(call, name) : create(call, name);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const page = await clientOf(call).agents.list({ order: "asc", ...listFlags(call) });
  tellPage(call.terminal, page, {
    none: "No agents yet. Make one with `signalbox agents create`.",
    row: (agent) => [agent.name, agent.runtime, agent.model, agent.tools.map((tool) => tool.reference).join(" ")],
  });
  return EXIT.done;
}

async function show(call: CommandCall, name: string): Promise<ExitCode> {
  const { terminal } = call;
  const agent = await clientOf(call).agents.get(name);
  if (terminal.json) {
    terminal.value(agent);
    return EXIT.done;
  }
  terminal.table([
    ["name", agent.name],
    ["id", agent.id],
    ["revision", String(agent.revision)],
    ["runtime", agent.runtime],
    ["model", agent.model],
    ...agent.tools.map((tool) => ["tool", `${tool.reference} (${tool.effect}, ${tool.grade})`]),
    ["instructions", terminal.plain(agent.instructions)],
  ]);
  return EXIT.done;
}

async function create(call: CommandCall, name: string): Promise<ExitCode> {
  const model = textFlag(call, "model");
  if (model === undefined) throw new UsageError("name a model with --model provider/model");
  const runtime = textFlag(call, "runtime");
  const instructions = textFlag(call, "instructions");
  const tools = textFlags(call, "tool");
  const agent = await clientOf(call).agents.create({
    name,
    model,
    ...(runtime === undefined ? {} : { runtime }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(tools === undefined ? {} : { tools: [...tools] }),
  });
  if (call.terminal.json) call.terminal.value(agent);
  else {
    call.terminal.line(`created ${agent.name} (${agent.id})`);
    for (const warning of agent.warnings) call.terminal.note(call.terminal.style("yellow", warning.detail));
  }
  return EXIT.done;
}
