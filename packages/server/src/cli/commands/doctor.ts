/** Looks at everything that is known to go wrong, and says what to do about it. */
import { CONNECTION_OPTIONS, EXIT, textFlag, UsageError, type Command, type CommandCall } from "../command.ts";
import { addressOf } from "../connection.ts";
import { warn, type HealthCheck } from "../health-check.ts";
import { checkDatabase, checkDataDir, checkNode } from "../machine-checks.ts";
import { checkPlatform } from "../platform-checks.ts";
import { readServerConfig } from "../../config/server-config.ts";

const MARK = { ok: "green", warn: "yellow", fail: "red" } as const;

export const doctorCommand: Command = {
  name: "doctor",
  summary: "Look at what can be wrong, here and on a running platform",
  usage: "signalbox doctor [--url URL] [--api-key KEY] [--data-dir .signalbox] [--json]",
  options: CONNECTION_OPTIONS,
  async run(call) {
    if (call.words.length > 0) throw new UsageError("doctor takes no words");
    const checks = await examine(call);
    if (call.terminal.json) call.terminal.value(checks);
    else for (const check of checks) show(call, check);
    return checks.some((check) => check.state === "fail") ? EXIT.failed : EXIT.done;
  },
};

async function examine(call: CommandCall): Promise<readonly HealthCheck[]> {
  const config = readServerConfig({ dataDir: textFlag(call, "data-dir") }, call.environment);
  return [
    checkNode(process.version),
    checkDataDir(config.dataDir),
    ...(await checkDatabase(config)),
    ...(await examinePlatform(call)),
  ];
}

async function examinePlatform(call: CommandCall): Promise<readonly HealthCheck[]> {
  try {
    return await checkPlatform(addressOf(call));
  } catch (thrown) {
    if (!(thrown instanceof UsageError)) throw thrown;
    return [
      warn("platform", "none is known here", "Start one with `npm start`, or set SIGNALBOX_URL and SIGNALBOX_API_KEY."),
    ];
  }
}

function show(call: CommandCall, check: HealthCheck): void {
  const { terminal } = call;
  const advice = check.advice === null ? "" : `\n      ${terminal.style("dim", check.advice)}`;
  terminal.line(`${terminal.style(MARK[check.state], check.state.padEnd(4))}  ${check.name}: ${check.found}${advice}`);
}
