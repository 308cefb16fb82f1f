import { CONNECTION_OPTIONS, EXIT, UsageError, type Command } from "../command.ts";
import { clientOf } from "../connection.ts";

export const conversationsCommand: Command = {
  name: "conversations",
  summary: "List conversations and show their history",
  usage: `signalbox conversations             list, newest first
signalbox conversations show ID     the history`,
  options: CONNECTION_OPTIONS,
  async run(call) {
    const [verb = "list", id, ...rest] = call.words;
    if (rest.length > 0) throw new UsageError("too many words");
    const client = clientOf(call);
    if (verb === "list") {
      const { data } = await client.conversations.list();
      if (call.terminal.json) call.terminal.value(data);
      else
        call.terminal.table(
          data.map((each) => [
            each.id,
            each.agent.name,
            each.activeRun?.status ?? "idle",
            each.createdAt,
            each.title ?? "",
          ]),
        );
      return EXIT.done;
    }
    if (verb !== "show" || id === undefined) throw new UsageError("name a conversation to show");
    for await (const message of client.conversations.open(id).messages()) {
      if (call.terminal.json) call.terminal.value(message);
      else
        call.terminal.line(
          `${call.terminal.style("bold", message.role)}${message.partial ? " (stopped)" : ""}\n${message.content}\n`,
        );
    }
    return EXIT.done;
  },
};
