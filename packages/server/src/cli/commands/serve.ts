import { readServerConfig, type ServerConfig } from "../../config/server-config.ts";
import { EXIT, refuseWords, textFlag, type Command, type CommandCall } from "../command.ts";

export const SERVER_OPTIONS = {
  host: { type: "string" },
  port: { type: "string" },
  "gates-port": { type: "string" },
  "data-dir": { type: "string" },
  "mcp-servers": { type: "string" },
  "log-level": { type: "string" },
} as const;

export const serveCommand: Command = {
  name: "serve",
  summary: "Run the platform; workers connect to its gate address with the join token",
  usage: `signalbox serve [--host 127.0.0.1] [--port 4620] [--gates-port PORT+1] [--data-dir .signalbox]
                [--mcp-servers FILE] [--log-level info]

DATABASE_URL replaces the embedded PostgreSQL. SIGNALBOX_JOIN_TOKEN is what workers present.`,
  options: SERVER_OPTIONS,
  async run(call) {
    refuseWords(call);
    const config = serverConfigOf(call);
    // Loaded here, so that no other command waits for the platform to be loaded.
    const { startPlatform } = await import("../../wiring/platform.ts");
    await using platform = await startPlatform(config, { log: "json" });
    call.terminal.value({ ready: true, url: platform.url, gatesUrl: platform.gatesUrl, pid: process.pid });
    await untilInterrupted(call.interrupted);
    return EXIT.done;
  },
};

export function serverConfigOf(call: CommandCall): ServerConfig {
  return readServerConfig(
    {
      host: textFlag(call, "host"),
      port: textFlag(call, "port"),
      gatesPort: textFlag(call, "gates-port"),
      dataDir: textFlag(call, "data-dir"),
      mcpServers: textFlag(call, "mcp-servers"),
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
