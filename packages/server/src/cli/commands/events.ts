import { isId } from "@signalbox/contract";
import { CONNECTION_OPTIONS, EXIT, isSet, textFlag, UsageError, type Command, type CommandCall } from "../command.ts";
import { clientOf } from "../connection.ts";
import { summaryOf } from "../event-summary.ts";

export const eventsCommand: Command = {
  name: "events",
  summary: "Follow the events of a conversation or a run",
  usage: `signalbox events CONVERSATION [--after SEQUENCE] [--no-follow]
signalbox events RUN                         from its first event to its last; Ctrl-C ends either`,
  options: { ...CONNECTION_OPTIONS, after: { type: "string" }, "no-follow": { type: "boolean" } },
  async run(call) {
    const events = await eventsOf(call);
    const { terminal } = call;
    try {
      for await (const event of events) {
        if (terminal.json) terminal.value(event);
        else {
          const place = String(event.sequence ?? "·").padStart(5);
          terminal.line(`${place}  ${event.type.padEnd(18)} ${terminal.plain(summaryOf(event))}`);
        }
      }
    } catch (thrown) {
      // Whoever follows ends it this way.
      if (!call.interrupted.aborted) throw thrown;
    }
    return EXIT.done;
  },
};

async function eventsOf(call: CommandCall) {
  const [id, ...rest] = call.words;
  if (id === undefined || rest.length > 0) throw new UsageError("name one conversation or run");
  const after = textFlag(call, "after");
  const follow = !isSet(call, "no-follow");
  if (after !== undefined && !/^[0-9]+$/.test(after)) throw new UsageError("--after takes a sequence, a whole number");
  const client = clientOf(call);
  if (!isId("run", id)) {
    const start = after === undefined ? {} : { after: Number(after) };
    return client.conversations.open(id).events({ signal: call.interrupted, follow, ...start });
  }
  if (after !== undefined || !follow) throw new UsageError("a run is followed from its first event to its last");
  return (await client.runs.open(id)).events({ signal: call.interrupted });
}
