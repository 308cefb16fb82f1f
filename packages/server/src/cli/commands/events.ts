import { isId } from "@signalbox/contract";
import { CONNECTION_OPTIONS, EXIT, isSet, textFlag, UsageError, type Command } from "../command.ts";
import { clientOf } from "../connection.ts";
import { summaryOf } from "../event-summary.ts";

export const eventsCommand: Command = {
  name: "events",
  summary: "Follow the events of a conversation or a run",
  usage: `signalbox events CONVERSATION|RUN [--after SEQUENCE] [--no-follow]`,
  options: { ...CONNECTION_OPTIONS, after: { type: "string" }, "no-follow": { type: "boolean" } },
  async run(call) {
    const [id, ...rest] = call.words;
    if (id === undefined || rest.length > 0) throw new UsageError("name one conversation or run");
    const after = textFlag(call, "after");
    if (after !== undefined && !/^[0-9]+$/.test(after))
      throw new UsageError("--after takes a sequence, a whole number");
    const client = clientOf(call);
    const events = isId("run", id)
      ? (await client.runs.open(id)).events({ signal: call.interrupted })
      : client.conversations.open(id).events({
          signal: call.interrupted,
          follow: !isSet(call, "no-follow"),
          ...(after === undefined ? {} : { after: Number(after) }),
        });
    for await (const event of events) {
      if (call.terminal.json) call.terminal.value(event);
      else
        call.terminal.line(
          `${String(event.sequence ?? "·").padStart(5)}  ${event.type.padEnd(18)} ${summaryOf(event)}`,
        );
    }
    return EXIT.done;
  },
};
