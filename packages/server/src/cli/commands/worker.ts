import { DEFAULT_RUNTIME } from "@signalbox/contract";
import { lineLog, runWorkerProcess } from "@signalbox/worker";
import { portOf, secretOf, textOf } from "../../config/environment.ts";
import { logLevelOf } from "../../config/server-config.ts";
import { systemClock } from "../../system/ports.ts";
import { EXIT, isSet, textFlag, UsageError, type Command } from "../command.ts";
import { EXECUTORS } from "../executors.ts";

const DEFAULT_ROOM = 32;

export const workerCommand: Command = {
  name: "worker",
  summary: "Run one worker process; it registers with a platform and is dialled by it",
  usage: `signalbox worker --platform GATES_URL [--runtime langgraph] [--host 127.0.0.1] [--port 0] [--room ${DEFAULT_ROOM}]

SIGNALBOX_JOIN_TOKEN is the worker's only secret. WORKER_EXECUTOR names the runtime where --runtime does not.`,
  options: {
    platform: { type: "string" },
    runtime: { type: "string" },
    host: { type: "string" },
    port: { type: "string" },
    room: { type: "string" },
    "stop-with-parent": { type: "boolean" },
  },
  async run(call) {
    const platformUrl = textFlag(call, "platform");
    if (platformUrl === undefined) throw new UsageError("name the platform's gate address with --platform");
    const joinToken = secretOf(call.environment, "SIGNALBOX_JOIN_TOKEN");
    if (joinToken === null) throw new UsageError("SIGNALBOX_JOIN_TOKEN is not set");
    const room = Number(textFlag(call, "room") ?? DEFAULT_ROOM);
    if (!Number.isInteger(room) || room < 1 || room > 1_000)
      throw new UsageError("--room takes a number from 1 to 1000");
    const runtime = textFlag(call, "runtime") ?? textOf(call.environment, "WORKER_EXECUTOR") ?? DEFAULT_RUNTIME;
    const load = EXECUTORS[runtime];
    if (load === undefined)
      throw new UsageError(`there is no runtime "${runtime}"; known are ${Object.keys(EXECUTORS).join(", ")}`);
    const code = await runWorkerProcess({
      platformUrl,
      joinToken,
      runtimes: { [runtime]: load },
      defaultRuntime: runtime,
      host: textFlag(call, "host") ?? "127.0.0.1",
      port: portOf(textFlag(call, "port") ?? "0", "--port"),
      room,
      stopWithParent: isSet(call, "stop-with-parent"),
      log: lineLog(
        (line) => process.stderr.write(line),
        () => systemClock.nowMs(),
        logLevelOf(textOf(call.environment, "SIGNALBOX_LOG_LEVEL") ?? "info"),
      ),
    });
    return code === 0 ? EXIT.done : EXIT.failed;
  },
};
