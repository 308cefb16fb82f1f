import { EXIT, isSet, refuseWords, UsageError, type Command } from "../command.ts";
import { SERVER_OPTIONS, serverConfigOf } from "./serve.ts";

export const recoverCommand: Command = {
  name: "recover",
  summary: "Say that the database was restored or cloned: no earlier owner, token or approval acts in it",
  usage: `signalbox recover --after-restore [--data-dir .signalbox] [--json]

Run it before the platform starts on a restored or cloned database; running processes begin anew by themselves. Calls
that were under way become unknown, approvals that were given and not carried out are asked again, the audit names the
interval that is not known. A failover, a copied data directory and a worker that is ahead are noticed without it.`,
  options: { ...SERVER_OPTIONS, "after-restore": { type: "boolean" }, json: { type: "boolean" } },
  async run(call) {
    refuseWords(call);
    if (!isSet(call, "after-restore")) throw new UsageError("say what happened: --after-restore");
    const { openEraAfterRestore } = await import("../../wiring/recover.ts");
    const era = await openEraAfterRestore(serverConfigOf(call));
    if (call.terminal.json) call.terminal.value({ era });
    else call.terminal.line(`era ${era} has begun`);
    return EXIT.done;
  },
};
