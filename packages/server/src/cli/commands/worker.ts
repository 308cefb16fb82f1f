import { hostname } from "node:os";
import { DEFAULT_RUNTIME } from "@signalbox/contract";
import { portOf, secretOf, textOf } from "../../config/environment.ts";
import { logLevelOf } from "../../config/server-config.ts";
import { systemClock } from "../../system/ports.ts";
import { EXIT, isSet, refuseWords, textFlag, UsageError, type Command, type CommandCall } from "../command.ts";
import { executorOf, RUNTIMES } from "../../wiring/executors.ts";

const DEFAULT_ROOM = 32;

export const workerCommand: Command = {
  name: "worker",
  summary: "Run one worker process; it registers with a platform and is dialled by it",
  usage: `signalbox worker --platform GATES_URL [--runtime langgraph] [--host 127.0.0.1] [--port 0]
                 [--advertise URL] [--room ${DEFAULT_ROOM}]

With --platform - it reads {"platformUrl","joinToken"} as one line of its standard input.
A worker that listens on every address announces its host name, or what --advertise says.
SIGNALBOX_JOIN_TOKEN is the worker's only secret. WORKER_EXECUTOR names the runtime where --runtime does not.`,
  options: {
    platform: { type: "string" },
    runtime: { type: "string" },
    host: { type: "string" },
    port: { type: "string" },
    advertise: { type: "string" },
    room: { type: "string" },
    "stop-with-parent": { type: "boolean" },
  },
  async run(call) {
    refuseWords(call);
    const said = textFlag(call, "platform");
    const given = said === "-" ? null : homeFromCall(call, said);
    const room = textFlag(call, "room") ?? String(DEFAULT_ROOM);
    if (!/^([1-9][0-9]{0,2}|1000)$/.test(room)) throw new UsageError("--room takes a number from 1 to 1000");
    const runtime = textFlag(call, "runtime") ?? textOf(call.environment, "WORKER_EXECUTOR") ?? DEFAULT_RUNTIME;
    const load = executorOf(runtime);
    if (load === null) {
      throw new UsageError(`there is no runtime "${runtime}"; known are ${RUNTIMES.join(", ")}`);
    }
    const { lineLog, runWorkerProcess } = await import("@signalbox/worker");
    // Whoever started this says later where the platform is: the engine is loaded meanwhile.
    const loading = given === null ? load() : null;
    loading?.catch(() => undefined);
    const home = given ?? (await homeFromInput(call.input));
    if (home === null) return EXIT.done;
    const code = await runWorkerProcess({
      ...home,
      runtimes: { [runtime]: loading === null ? load : () => loading },
      defaultRuntime: runtime,
      ...listenerOf(call),
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

interface ListenerFlags {
  readonly host: string;
  readonly port: number;
  readonly advertise?: string;
}

const EVERYWHERE: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);

/** Where the worker listens, and by which address the platform dials it. */
function listenerOf(call: CommandCall): ListenerFlags {
  const host = textFlag(call, "host") ?? "127.0.0.1";
  const port = portOf(textFlag(call, "port") ?? "0", "--port");
  const said = textFlag(call, "advertise");
  if (said !== undefined) {
    if (!/^https?:\/\/[^/?#@]+$/.test(said) || URL.parse(said) === null) {
      throw new UsageError("--advertise takes an address such as http://worker-1:4711");
    }
    return { host, port, advertise: said };
  }
  if (!EVERYWHERE.has(host)) return { host, port };
  if (port === 0) throw new UsageError(`a worker that listens on ${host} needs a --port to announce`);
  return { host, port, advertise: `http://${hostname()}:${port}` };
}

interface Home {
  readonly platformUrl: string;
  readonly joinToken: string;
}

function homeFromCall(call: CommandCall, platformUrl: string | undefined): Home {
  return {
    platformUrl: addressOf(platformUrl),
    joinToken: tokenOf(secretOf(call.environment, "SIGNALBOX_JOIN_TOKEN")),
  };
}

function addressOf(platformUrl: unknown): string {
  if (typeof platformUrl !== "string" || !/^https?:$/.test(URL.parse(platformUrl)?.protocol ?? "")) {
    throw new UsageError("name the platform's gate address, such as http://127.0.0.1:4621, with --platform");
  }
  return platformUrl;
}

function tokenOf(joinToken: unknown): string {
  if (typeof joinToken !== "string") throw new UsageError("SIGNALBOX_JOIN_TOKEN is not set");
  return joinToken;
}

/** `null` when the input ends before a line came: whoever started this is gone. */
async function homeFromInput(input: NodeJS.ReadStream): Promise<Home | null> {
  const line = Promise.withResolvers<string | null>();
  let text = "";
  const onData = (chunk: Buffer): void => {
    text += chunk.toString("utf8");
    if (text.includes("\n")) line.resolve(text);
  };
  const onEnd = (): void => line.resolve(null);
  input.on("data", onData).once("end", onEnd);
  const first = await line.promise;
  input.off("data", onData).off("end", onEnd);
  if (first === null) return null;
  // Only the shape that the next line checks is claimed.
  const { platformUrl, joinToken } = JSON.parse(first) as { readonly [name in keyof Home]?: unknown };
  return { platformUrl: addressOf(platformUrl), joinToken: tokenOf(joinToken) };
}
