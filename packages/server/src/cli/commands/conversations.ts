import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  refuseFlags,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";

export const conversationsCommand: Command = {
  name: "conversations",
  summary: "List conversations and show their history",
  usage: `signalbox conversations [--limit 50] [--cursor CURSOR]   list, newest first
signalbox conversations show ID                          the history`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS },
  async run(call) {
    const [verb = "list", id, ...rest] = call.words;
    if (verb !== "list" && verb !== "show") throw new UsageError(`there is no "conversations ${verb}"`);
    if (rest.length > 0 || (verb === "list" && id !== undefined)) throw new UsageError("too many words");
    if (verb === "list") return list(call);
    if (id === undefined) throw new UsageError("name a conversation to show");
    refuseFlags(call, Object.keys(LIST_OPTIONS), "conversations");
    return show(call, id);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const { terminal } = call;
  tellPage(terminal, await clientOf(call).conversations.list(listFlags(call)), {
    none: "No conversations yet. Begin one with `signalbox chat`.",
    row: (each) => [
      each.id,
      each.agent.name,
      each.activeRun?.status ?? "idle",
      each.createdAt,
      terminal.plain(each.title ?? ""),
    ],
  });
  return EXIT.done;
}

async function show(call: CommandCall, id: string): Promise<ExitCode> {
  const { terminal } = call;
  for await (const message of clientOf(call).conversations.open(id).messages()) {
    if (terminal.json) {
      terminal.value(message);
    } else {
      terminal.line(`${terminal.style("bold", message.role)}${message.partial ? " (stopped)" : ""}`);
      terminal.line(`${terminal.plain(message.content)}\n`);
    }
  }
  return EXIT.done;
}
