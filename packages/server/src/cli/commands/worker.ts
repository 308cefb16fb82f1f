import { DEFAULT_RUNTIME } from "@signalbox/contract";
import { portOf, secretOf, textOf } from "../../config/environment.ts";
import { logLevelOf } from "../../config/server-config.ts";
import { systemClock } from "../../system/ports.ts";
import { EXIT, isSet, refuseWords, textFlag, UsageError, type Command } from "../command.ts";
import { executorOf, RUNTIMES } from "../executors.ts";

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
    refuseWords(call);
    const platformUrl = textFlag(call, "platform");
    if (platformUrl === undefined || !/^https?:$/.test(URL.parse(platformUrl)?.protocol ?? "")) {
      throw new UsageError("name the platform's gate address, such as http://127.0.0.1:4621, with --platform");
    }
    const joinToken = secretOf(call.environment, "SIGNALBOX_JOIN_TOKEN");
    if (joinToken === null) throw new UsageError("SIGNALBOX_JOIN_TOKEN is not set");
    const room = textFlag(call, "room") ?? String(DEFAULT_ROOM);
    if (!/^([1-9][0-9]{0,2}|1000)$/.test(room)) throw new UsageError("--room takes a number from 1 to 1000");
    const runtime = textFlag(call, "runtime") ?? textOf(call.environment, "WORKER_EXECUTOR") ?? DEFAULT_RUNTIME;
    const load = executorOf(runtime);
    if (load === null) {
      throw new UsageError(`there is no runtime "${runtime}"; known are ${RUNTIMES.join(", ")}`);
    }
    const { lineLog, runWorkerProcess } = await import("@signalbox/worker");
    const code = await runWorkerProcess({
      platformUrl,
      joinToken,
      runtimes: { [runtime]: load },
      defaultRuntime: runtime,
      host: textFlag(call, "host") ?? "127.0.0.1",
      port: portOf(textFlag(call, "port") ?? "0", "--port"),
      room: Number(room),
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
