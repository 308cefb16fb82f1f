import { fileURLToPath } from "node:url";
import { ConfigurationError, textOf } from "../../config/environment.ts";
import { readServerConfig, type ServerConfig } from "../../config/server-config.ts";
import { systemClock } from "../../system/ports.ts";
import { createLog } from "../../telemetry/log.ts";
import type { Platform } from "../../wiring/platform.ts";
import { EXIT, refuseWords, textFlag, type Command, type CommandCall } from "../command.ts";
import { executorOf, RUNTIMES } from "../../wiring/executors.ts";
import { leavePlatformFile } from "../platform-files.ts";
import { WorkerChildren } from "../worker-children.ts";

const BINARY = fileURLToPath(new URL("../../main.js", import.meta.url));

export const SERVER_OPTIONS = {
  role: { type: "string" },
  host: { type: "string" },
  port: { type: "string" },
  "gates-port": { type: "string" },
  "data-dir": { type: "string" },
  "mcp-servers": { type: "string" },
  posture: { type: "string" },
  "log-level": { type: "string" },
} as const;

export const serveCommand: Command = {
  name: "serve",
  summary: "Run the platform, or the roles of it that are named; workers register with its supervisor",
  usage: `signalbox serve [--role api,gates,supervisor,worker] [--host 127.0.0.1] [--port 4620] [--gates-port PORT+1]
                [--data-dir .signalbox] [--mcp-servers FILE] [--posture dev|production] [--log-level info]

--posture production keeps a tool that nobody has approved from being used; dev, the default, trusts what it sees first
(SIGNALBOX_POSTURE; \`signalbox tools\` approves and classifies).
--role is api,gates,supervisor unless said otherwise (SIGNALBOX_ROLE). DATABASE_URL replaces the embedded PostgreSQL.
SIGNALBOX_JOIN_TOKEN is what workers present. A supervisor without gates needs SIGNALBOX_GATES_URL, workers without a
supervisor SIGNALBOX_PLATFORM_URL; SIGNALBOX_RUNTIMES names the workers of the role worker. SIGTERM, or
\`signalbox drain\`, lets it finish or hand over what it drives.`,
  options: SERVER_OPTIONS,
  async run(call) {
    refuseWords(call);
    const config = serverConfigOf(call);
    // Ended after the platform: a draining run still needs its worker.
    await using children = config.roles.includes("worker") ? startChildren(call, config) : null;
    if (config.roles.every((role) => role === "worker")) {
      const { platformUrl, joinToken } = config;
      if (platformUrl !== null && joinToken !== null) children?.welcome({ platformUrl, joinToken });
      call.terminal.value({ ready: true, roles: config.roles, url: null, gatesUrl: null, pid: process.pid });
      await untilInterrupted(call.interrupted);
      return EXIT.done;
    }
    // Loaded here, so that no other command waits for the platform to be loaded.
    const { startPlatform } = await import("../../wiring/platform.ts");
    await using platform = await startPlatform(config, { log: "json" });
    children?.welcome(homeOf(config, platform));
    const { url, gatesUrl } = platform;
    await using _left = await leavePlatformFile(config.dataDir, { url, gatesUrl, roles: config.roles });
    call.terminal.value({ ready: true, roles: config.roles, url, gatesUrl, pid: process.pid });
    await untilInterrupted(call.interrupted);
    return EXIT.done;
  },
};

function startChildren(call: CommandCall, config: ServerConfig): WorkerChildren {
  const runtimes = runtimesOf(call);
  const children = new WorkerChildren({
    binary: BINARY,
    environment: call.environment,
    logLevel: config.logLevel,
    log: createLog({
      level: config.logLevel,
      format: "json",
      write: (line) => process.stderr.write(line),
      nowMs: () => systemClock.nowMs(),
    }),
  });
  for (const runtime of runtimes) children.start(runtime);
  return children;
}

function runtimesOf(call: CommandCall): readonly string[] {
  const named = textOf(call.environment, "SIGNALBOX_RUNTIMES");
  if (named === null) return RUNTIMES;
  const runtimes = named.split(",").map((name) => name.trim());
  const unknown = runtimes.find((runtime) => executorOf(runtime) === null);
  if (unknown === undefined) return runtimes;
  throw new ConfigurationError(
    `SIGNALBOX_RUNTIMES names "${unknown}", which is no runtime; known are ${RUNTIMES.join(", ")}.`,
  );
}

/** Where the workers of this process register: with its own supervisor, else with the one that was named. */
function homeOf(
  config: ServerConfig,
  platform: Platform,
): { readonly platformUrl: string; readonly joinToken: string } {
  const own = config.roles.includes("supervisor") ? platform.gatesUrl : null;
  const platformUrl = own ?? config.platformUrl;
  if (platformUrl === null) throw new Error("workers without a supervisor were not refused");
  return { platformUrl, joinToken: platform.joinToken };
}

/** `posture` where neither flag nor environment says one. */
export function serverConfigOf(call: CommandCall, posture: "dev" | "production" = "dev"): ServerConfig {
  return readServerConfig(
    {
      role: textFlag(call, "role"),
      host: textFlag(call, "host"),
      port: textFlag(call, "port"),
      gatesPort: textFlag(call, "gates-port"),
      dataDir: textFlag(call, "data-dir"),
      mcpServers: textFlag(call, "mcp-servers"),
      posture: textFlag(call, "posture") ?? textOf(call.environment, "SIGNALBOX_POSTURE") ?? posture,
      logLevel: textFlag(call, "log-level"),
    },
    call.environment,
  );
}

export function untilInterrupted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
