/** What an operator looks at first: is it ready, what can it run, what does it owe, what is paused or stopped. */
import { CONNECTION_OPTIONS, EXIT, refuseWords, type Command } from "../command.ts";
import { clientOf } from "../connection.ts";

/** Younger ones are on their way. */
const OWED_MS = 10_000;
const SHOWN = 20;

export const statusCommand: Command = {
  name: "status",
  summary: "Show what the platform can run, what it owes and what is paused or stopped",
  usage: "signalbox status",
  options: CONNECTION_OPTIONS,
  async run(call) {
    refuseWords(call);
    const { terminal } = call;
    const client = clientOf(call);
    const [info, runtimes, holds, stops, obligations] = await Promise.all([
      client.info(),
      client.runtimes(),
      client.holds.list({ state: "open", limit: SHOWN }),
      client.stops.list({ limit: SHOWN }),
      client.operate.obligations({ olderThanMs: OWED_MS }),
    ]);
    if (terminal.json) {
      terminal.value({ version: info.version, runtimes, holds: holds.data, stops: stops.data, obligations });
      return EXIT.done;
    }
    terminal.line(`signalbox ${info.version}`);
    terminal.table([
      ...runtimes.map((each) => [
        "runtime",
        each.name,
        each.available ? `room for ${each.room}` : (each.problem ?? ""),
      ]),
      ...stops.data.map((stop) => [stop.kind, stop.id, `${stop.scope} ${stop.subject} since ${stop.createdAt}`]),
      ...holds.data.map((hold) => [
        "hold",
        hold.id,
        `${hold.kind} of ${hold.runId ?? hold.gatewayCallId} since ${hold.openedAt}`,
      ]),
      ...obligations
        .slice(0, SHOWN)
        .map((owed) => ["owed", owed.id, `${owed.kind} of ${owed.runId} since ${owed.since}`]),
    ]);
    if (obligations.length === 0) terminal.line(`Nothing is owed for longer than ${OWED_MS / 1_000} s.`);
    return EXIT.done;
  },
};
