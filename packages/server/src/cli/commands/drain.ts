/** Asks a platform process of this machine to leave in order, and waits until it has. */
import { setTimeout as sleep } from "node:timers/promises";
import { dataDirOf } from "../../config/server-config.ts";
import { judge } from "../../database/process-identity.ts";
import { EXIT, isSet, refuseWords, textFlag, UsageError, type Command, type CommandCall } from "../command.ts";
import { runningPlatforms, type RunningPlatform } from "../platform-files.ts";

const DEFAULT_WAIT_S = 60;
const LOOK_EVERY_MS = 100;

export const drainCommand: Command = {
  name: "drain",
  summary: "Let a platform process of this machine finish or hand over what it drives, and end",
  usage: `signalbox drain [--data-dir .signalbox] [--pid PID | --all] [--wait ${DEFAULT_WAIT_S}]

It stops taking requests and claiming, lets the runs it drives end within 20 seconds, gives the rest back for another
process to go on with, and ends. SIGTERM does the same. --wait bounds, in seconds, how long this command waits.`,
  options: {
    "data-dir": { type: "string" },
    pid: { type: "string" },
    all: { type: "boolean" },
    wait: { type: "string" },
    json: { type: "boolean" },
  },
  async run(call) {
    refuseWords(call);
    const waitText = textFlag(call, "wait") ?? String(DEFAULT_WAIT_S);
    if (!/^[1-9][0-9]{0,3}$/.test(waitText)) throw new UsageError("--wait takes a number of seconds from 1 to 9999");
    const dataDir = dataDirOf(textFlag(call, "data-dir"), call.environment);
    const chosen = choose(call, dataDir, await runningPlatforms(dataDir));
    for (const platform of chosen) process.kill(platform.process.pid, "SIGTERM");
    const deadlineMs = performance.now() + Number(waitText) * 1_000;
    let allEnded = true;
    for (const platform of chosen) {
      const ended = await hasEnded(platform, deadlineMs);
      allEnded &&= ended;
      tell(call, platform, ended);
    }
    return allEnded ? EXIT.done : EXIT.failed;
  },
};

function choose(call: CommandCall, dataDir: string, running: readonly RunningPlatform[]): readonly RunningPlatform[] {
  const pid = textFlag(call, "pid");
  const all = isSet(call, "all");
  if (pid !== undefined && all) throw new UsageError("say either --pid or --all");
  if (pid !== undefined) {
    const named = running.filter((platform) => String(platform.process.pid) === pid);
    if (named.length === 0) throw new UsageError(`no platform process ${pid} uses ${dataDir}`);
    return named;
  }
  if (running.length === 0) throw new UsageError(`no platform process uses ${dataDir}`);
  if (running.length > 1 && !all) {
    const pids = running.map((platform) => platform.process.pid).join(", ");
    throw new UsageError(`several platform processes use ${dataDir} (${pids}): choose one with --pid, or say --all`);
  }
  return running;
}

async function hasEnded(platform: RunningPlatform, deadlineMs: number): Promise<boolean> {
  while ((await judge(platform.process)) === "alive") {
    if (performance.now() > deadlineMs) return false;
    await sleep(LOOK_EVERY_MS);
  }
  return true;
}

function tell(call: CommandCall, { process: { pid }, roles }: RunningPlatform, ended: boolean): void {
  if (call.terminal.json) call.terminal.value({ pid, roles, ended });
  else call.terminal.line(ended ? `process ${pid} has ended` : `process ${pid} is still draining`);
}
