/** Looks at everything that is known to go wrong, and says what to do about it. */
import { ConfigurationError } from "../../config/environment.ts";
import { readServerConfig } from "../../config/server-config.ts";
import {
  CONNECTION_OPTIONS,
  EXIT,
  refuseFlags,
  refuseWords,
  textFlag,
  type Command,
  type CommandCall,
} from "../command.ts";
import { knownPlatform } from "../connection.ts";
import { fail, type HealthCheck } from "../health-check.ts";
import { checkPlatform } from "../platform-checks.ts";

const MARK = { ok: "green", warn: "yellow", fail: "red" } as const;

export const doctorCommand: Command = {
  name: "doctor",
  summary: "Look at what can be wrong, here and on a running platform",
  usage: `signalbox doctor [--url URL] [--api-key KEY] [--data-dir .signalbox] [--json]

Ends with 0 when nothing fails; what is only odd is a warning.`,
  options: CONNECTION_OPTIONS,
  async run(call) {
    refuseWords(call);
    refuseFlags(call, ["user"], "chat");
    const checks = [...(await checkMachine(call)), ...(await checkKnownPlatform(call))];
    if (call.terminal.json) call.terminal.value(checks);
    else for (const check of checks) show(call, check);
    return checks.some((check) => check.state === "fail") ? EXIT.failed : EXIT.done;
  },
};

async function checkMachine(call: CommandCall): Promise<readonly HealthCheck[]> {
  const { checkDatabase, checkDataDir, checkNode } = await import("../machine-checks.ts");
  const ofMachine = await orConfiguration(async () => {
    const config = readServerConfig({ dataDir: textFlag(call, "data-dir") }, call.environment);
    return [checkDataDir(config.dataDir), ...(await checkDatabase(config))];
  });
  return [checkNode(process.version), ...ofMachine];
}

async function checkKnownPlatform(call: CommandCall): Promise<readonly HealthCheck[]> {
  return orConfiguration(() => checkPlatform(knownPlatform(call)));
}

/** A configuration that cannot be read is one of the things that can be wrong. */
async function orConfiguration(look: () => Promise<readonly HealthCheck[]>): Promise<readonly HealthCheck[]> {
  try {
    return await look();
  } catch (thrown) {
    if (!(thrown instanceof ConfigurationError)) throw thrown;
    return [fail("configuration", thrown.message, "Nothing starts until this is mended.")];
  }
}

function show(call: CommandCall, check: HealthCheck): void {
  const { terminal } = call;
  const advice = check.advice === null ? "" : `\n      ${terminal.style("dim", check.advice)}`;
  terminal.line(
    `${terminal.style(MARK[check.state], check.state.padEnd(4))}  ${check.name}: ${terminal.plain(check.found)}${advice}`,
  );
}
