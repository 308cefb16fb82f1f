import { RIGHTS, type Right } from "../../api/caller.ts";
import { EXIT, textFlag, textFlags, UsageError, type Command, type CommandCall } from "../command.ts";
import { SERVER_OPTIONS, serverConfigOf } from "./serve.ts";

export const keysCommand: Command = {
  name: "keys",
  summary: "Make an API key, on the machine that reaches the database",
  usage: `signalbox keys create NAME [--tenant default] [--right read --right write …] [--data-dir .signalbox]

Rights are ${RIGHTS.join(", ")}; a key gets all of them where none is named. The key is shown once.
Works with the database and SIGNALBOX_SECRET of the platform.`,
  options: {
    ...SERVER_OPTIONS,
    tenant: { type: "string" },
    right: { type: "string", multiple: true },
    json: { type: "boolean" },
  },
  async run(call) {
    const [verb, name, ...rest] = call.words;
    if (verb !== "create" || name === undefined || rest.length > 0) throw new UsageError("say `keys create NAME`");
    const rights = rightsOf(call);
    const { DEFAULT_TENANT, issueApiKey } = await import("../../wiring/api-keys.ts");
    const tenantId = textFlag(call, "tenant") ?? DEFAULT_TENANT;
    const issued = await issueApiKey(serverConfigOf(call), { tenantId, name, rights });
    if (call.terminal.json) call.terminal.value({ ...issued, tenant: tenantId });
    else call.terminal.line(issued.key);
    return EXIT.done;
  },
};

function rightsOf(call: CommandCall): readonly Right[] {
  const named = textFlags(call, "right");
  if (named === undefined) return RIGHTS;
  return named.map((text) => {
    const right = RIGHTS.find((each) => each === text);
    if (right !== undefined) return right;
    throw new UsageError(`there is no right "${text}"; rights are ${RIGHTS.join(", ")}`);
  });
}
