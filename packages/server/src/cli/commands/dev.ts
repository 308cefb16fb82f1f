/** Everything on one machine: database, platform, one worker process per runtime, and a key to talk to it. */
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { DEFAULT_ROLES } from "../../config/roles.ts";
import { systemClock } from "../../system/ports.ts";
import { createLog } from "../../telemetry/log.ts";
import { EXIT, refuseWords, textFlags, UsageError, type Command, type CommandCall } from "../command.ts";
import { devFilePath, readDevFile, type DevFile } from "../connection.ts";
import { executorOf, RUNTIMES } from "../../wiring/executors.ts";
import { WorkerChildren } from "../worker-children.ts";
import { SERVER_OPTIONS, serverConfigOf, untilInterrupted } from "./serve.ts";

const BINARY = fileURLToPath(new URL("../../main.js", import.meta.url));

const { role: _role, ...DEV_OPTIONS } = SERVER_OPTIONS;

export const devCommand: Command = {
  name: "dev",
  summary: "Run everything on this machine: database, platform and one worker per runtime",
  usage: `signalbox dev [--port 4620] [--data-dir .signalbox] [--mcp-servers FILE] [--posture dev|production]
              [--runtime NAME …] [--log-level info]

Models: SIGNALBOX_SIM_URL, ANTHROPIC_API_KEY, OLLAMA_HOST.`,
  options: { ...DEV_OPTIONS, runtime: { type: "string", multiple: true }, json: { type: "boolean" } },
  async run(call) {
    refuseWords(call);
    // Everything is here, whatever role a server of this machine has.
    const config = { ...serverConfigOf(call, "dev"), roles: DEFAULT_ROLES };
    const runtimes = textFlags(call, "runtime") ?? RUNTIMES;
    const unknown = runtimes.find((runtime) => executorOf(runtime) === null);
    if (unknown !== undefined) {
      throw new UsageError(`there is no runtime "${unknown}"; known are ${RUNTIMES.join(", ")}`);
    }
    // Ended after the platform: a draining run still needs its worker.
    await using children = new WorkerChildren({
      binary: BINARY,
      environment: call.environment,
      logLevel: config.logLevel,
      log: createLog({
        level: config.logLevel,
        format: "text",
        write: (line) => process.stderr.write(line),
        nowMs: () => systemClock.nowMs(),
      }),
    });
    for (const runtime of runtimes) children.start(runtime);
    // Loaded here, so that no other command waits for the platform to be loaded.
    const { startPlatform } = await import("../../wiring/platform.ts");
    await using platform = await startPlatform(config, { log: "text" });
    const key = await platform.ensureDevKey();
    const { url, gatesUrl, joinToken } = platform;
    if (url === null || gatesUrl === null) throw new Error("the platform of dev has an API and gates");
    children.welcome({ platformUrl: gatesUrl, joinToken });
    const file = { url, apiKey: key, pid: process.pid };
    using _left = leaveDevFile(config.dataDir, file, (text) => call.terminal.note(text));
    announce(call, gatesUrl, file);
    await untilInterrupted(call.interrupted);
    call.terminal.note("stopping …");
    return EXIT.done;
  },
};

/** One file per data directory: the first platform that lives keeps it, so that commands find one that stays. */
function leaveDevFile(dataDir: string, file: DevFile, note: (text: string) => void): Disposable {
  const known = readDevFile(dataDir);
  if (known !== null && known.pid !== file.pid && lives(known.pid)) {
    note(
      `The platform at ${known.url} (process ${known.pid}) uses ${dataDir} too: both share its database, and commands go to that one.`,
    );
    return { [Symbol.dispose]: () => undefined };
  }
  const path = devFilePath(dataDir);
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(path, JSON.stringify(file), { mode: 0o600 });
  chmodSync(path, 0o600);
  return {
    [Symbol.dispose]: () => {
      if (readDevFile(dataDir)?.pid === file.pid) rmSync(path, { force: true });
    },
  };
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function announce(call: CommandCall, gatesUrl: string, file: DevFile): void {
  if (call.terminal.json) {
    call.terminal.value({ ready: true, ...file, gatesUrl });
    return;
  }
  call.terminal.table([
    ["API", file.url],
    ["gates", gatesUrl],
    ["key", file.apiKey],
    // In the fragment, which a browser sends nowhere; the page keeps it for its tab and takes it out of the address.
    ["page", `${file.url}/#key=${file.apiKey}`],
  ]);
}
