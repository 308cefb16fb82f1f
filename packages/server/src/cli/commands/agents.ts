import { WHEN_BUSY, type Agent, type CreateAgent } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  isSet,
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
  "when-busy": { type: "string" },
} as const;

const UPDATE_OPTIONS = {
  "no-tools": { type: "boolean" },
  revision: { type: "string" },
} as const;

const VERBS: Readonly<Record<string, (call: CommandCall, name: string) => Promise<ExitCode>>> = {
  show,
  create,
  update,
  disable: (call, name) => turn(call, name, { disabled: true }),
  enable: (call, name) => turn(call, name, { disabled: false }),
  revisions,
};

export const agentsCommand: Command = {
  name: "agents",
  summary: "List, show, create and change agents",
  usage: `signalbox agents [--limit 50] [--cursor CURSOR]          list
signalbox agents show NAME
signalbox agents create NAME --model provider/model [--runtime langgraph|claude_sdk]
                        [--instructions TEXT] [--tool server/tool …]
                        [--when-busy enqueue|reject|interrupt|rollback|steer]
signalbox agents update NAME [what create takes] [--no-tools] [--revision N]
                                                         a new revision for new messages
signalbox agents disable|enable NAME                     whether it takes new messages
signalbox agents revisions NAME [--limit 50] [--cursor CURSOR]`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...CREATE_OPTIONS, ...UPDATE_OPTIONS },
  async run(call) {
    const [verb = "list", name, ...rest] = call.words;
    const act = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (act === undefined && verb !== "list") throw new UsageError(`there is no "agents ${verb}"`);
    if (rest.length > 0 || (verb === "list" && name !== undefined)) throw new UsageError("too many words");
    if (verb !== "create" && verb !== "update") refuseFlags(call, Object.keys(CREATE_OPTIONS), "agents create");
    if (verb !== "update") refuseFlags(call, Object.keys(UPDATE_OPTIONS), "agents update");
    if (verb !== "list" && verb !== "revisions") refuseFlags(call, Object.keys(LIST_OPTIONS), "agents");
    if (act === undefined) return list(call);
    if (name === undefined) throw new UsageError("name an agent");
    return act(call, name);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const page = await clientOf(call).agents.list({ order: "asc", ...listFlags(call) });
  tellPage(call.terminal, page, {
    none: "No agents yet. Make one with `signalbox agents create`.",
    row: (agent) => [
      agent.disabled ? `${agent.name} (disabled)` : agent.name,
      agent.runtime,
      agent.model,
      agent.tools.map((tool) => tool.reference).join(" "),
    ],
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
    ["when busy", agent.whenBusy],
    ["takes messages", agent.disabled ? "no, it is disabled" : "yes"],
    ...agent.tools.map((tool) => ["tool", `${tool.reference} (${tool.effect}, ${tool.grade})`]),
    ["instructions", terminal.plain(agent.instructions)],
  ]);
  return EXIT.done;
}

async function create(call: CommandCall, name: string): Promise<ExitCode> {
  const { model, ...given } = definitionFlags(call);
  if (model === undefined) throw new UsageError("name a model with --model provider/model");
  const agent = await clientOf(call).agents.create({ name, model, ...given });
  return tell(call, agent, `created ${agent.name} (${agent.id})`);
}

async function update(call: CommandCall, name: string): Promise<ExitCode> {
  const given = definitionFlags(call);
  const bare = isSet(call, "no-tools");
  if (bare && given.tools !== undefined) throw new UsageError("--tool and --no-tools exclude one another");
  const change = bare ? { ...given, tools: [] } : given;
  if (Object.keys(change).length === 0) throw new UsageError("say what changes");
  const revision = textFlag(call, "revision");
  if (revision !== undefined && !/^[1-9][0-9]{0,8}$/.test(revision)) {
    throw new UsageError("--revision takes a number, such as 3");
  }
  const named = revision === undefined ? {} : { revision: Number(revision) };
  const agent = await clientOf(call).agents.update(name, { ...change, ...named });
  return tell(call, agent, `${agent.name} is at revision ${agent.revision}`);
}

async function turn(call: CommandCall, name: string, change: { readonly disabled: boolean }): Promise<ExitCode> {
  const agent = await clientOf(call).agents.update(name, change);
  const said = change.disabled ? "takes no new messages; what was accepted is answered" : "takes messages";
  return tell(call, agent, `${agent.name} ${said}`);
}

async function revisions(call: CommandCall, name: string): Promise<ExitCode> {
  const { terminal } = call;
  tellPage(terminal, await clientOf(call).agents.revisions(name, listFlags(call)), {
    none: "No revisions.",
    row: (each) => [
      String(each.revision),
      each.createdAt,
      each.runtime,
      each.model,
      each.tools.join(" "),
      terminal.plain(each.instructions),
    ],
  });
  return EXIT.done;
}

function tell(call: CommandCall, agent: Agent, sentence: string): ExitCode {
  if (call.terminal.json) call.terminal.value(agent);
  else {
    call.terminal.line(sentence);
    for (const warning of agent.warnings) call.terminal.note(call.terminal.style("yellow", warning.detail));
  }
  return EXIT.done;
}

/** What an agent is made of, as far as it was given. */
function definitionFlags(call: CommandCall): Partial<Omit<CreateAgent, "name">> {
  const model = textFlag(call, "model");
  const runtime = textFlag(call, "runtime");
  const instructions = textFlag(call, "instructions");
  const tools = textFlags(call, "tool");
  const word = textFlag(call, "when-busy");
  const whenBusy = WHEN_BUSY.find((each) => each === word);
  if (word !== undefined && whenBusy === undefined) {
    throw new UsageError(`--when-busy takes one of ${WHEN_BUSY.join(", ")}`);
  }
  return {
    ...(model === undefined ? {} : { model }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(instructions === undefined ? {} : { instructions }),
    ...(tools === undefined ? {} : { tools: [...tools] }),
    ...(whenBusy === undefined ? {} : { whenBusy }),
  };
}
