import { STOP_SCOPES, type StopScope } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  isSet,
  refuseFlags,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";

export const stopCommand: Command = {
  name: "stop",
  summary: "Stop or pause runs at a scope, lift that, or list what stands",
  usage: `signalbox stop                                       list pauses and stops that stand
signalbox stop run|conversation|agent ID [--reason TEXT]    end what runs there and admit nothing new
signalbox stop tenant [--reason TEXT]
signalbox stop … --pause                             keep it waiting instead
signalbox stop --lift STOP`,
  options: {
    ...CONNECTION_OPTIONS,
    reason: { type: "string" },
    pause: { type: "boolean" },
    lift: { type: "string" },
  },
  async run(call) {
    const { terminal, words } = call;
    const { stops } = clientOf(call);
    const lift = textFlag(call, "lift");
    if (lift !== undefined) {
      if (words.length > 0) throw new UsageError("--lift takes a stop and nothing else");
      refuseFlags(call, ["reason", "pause"], "stop SCOPE");
      const lifted = await stops.lift(lift);
      if (terminal.json) terminal.value(lifted);
      else terminal.line(`The ${lifted.kind} of ${lifted.scope} ${lifted.subject} is lifted.`);
      return EXIT.done;
    }
    if (words.length === 0) {
      refuseFlags(call, ["reason", "pause"], "stop SCOPE");
      tellPage(terminal, await stops.list({ limit: 200 }), {
        none: "Nothing is paused or stopped.",
        row: (stop) => [
          stop.id,
          stop.kind,
          stop.scope,
          stop.subject,
          stop.createdAt,
          terminal.plain(stop.reason ?? ""),
        ],
      });
      return EXIT.done;
    }
    const reason = textFlag(call, "reason");
    const kind = isSet(call, "pause") ? "pause" : "stop";
    const stop = await stops.create({ kind, ...placeOf(call), ...(reason === undefined ? {} : { reason }) });
    if (terminal.json) terminal.value(stop);
    else terminal.line(`${stop.id}: a ${stop.kind} of ${stop.scope} ${stop.subject} stands.`);
    return EXIT.done;
  },
};

function placeOf({ words }: CommandCall): { readonly scope: StopScope; readonly id?: string } {
  const [word, id, ...rest] = words;
  const scope = STOP_SCOPES.find((each) => each === word);
  if (scope === undefined) throw new UsageError(`a scope is one of ${STOP_SCOPES.join(", ")}`);
  if (rest.length > 0 || (scope === "tenant" && id !== undefined)) throw new UsageError("too many words");
  if (scope === "tenant") return { scope };
  if (id === undefined) throw new UsageError(`name the ${scope}`);
  return { scope, id };
}
