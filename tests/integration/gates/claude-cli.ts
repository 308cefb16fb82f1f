/** The real Claude CLI as an engine behind the gates, with private directories that are gone afterwards. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { query, type Options } from "@anthropic-ai/claude-agent-sdk";
import { TOKEN } from "./watched-record.ts";

export interface CliOutcome {
  /** `init` status of our MCP server. */
  readonly toolServer: string;
  readonly answer: string;
  readonly isError: boolean;
  readonly apiStatus: number | null;
  /** How often it tried a model call again. */
  readonly retryCount: number;
  readonly toolResults: readonly string[];
}

export interface CliOptions {
  readonly gatesUrl: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Called when the first text has been seen. */
  readonly onText?: () => void;
}

export async function askClaudeCli({ gatesUrl, env, onText }: CliOptions): Promise<CliOutcome> {
  const folder = await mkdtemp(join(tmpdir(), "cli-"));
  try {
    for (const name of ["home", "config", "temporary", "work"]) await mkdir(join(folder, name));
    const outcome: { -readonly [Field in keyof CliOutcome]: CliOutcome[Field] } & { toolResults: string[] } = {
      toolServer: "",
      answer: "",
      isError: false,
      apiStatus: null,
      retryCount: 0,
      toolResults: [],
    };
    try {
      for await (const message of query({ prompt: "go", options: optionsFor(folder, gatesUrl, env ?? {}) })) {
        if (message.type === "system" && message.subtype === "init") {
          outcome.toolServer = message.mcp_servers.find((server) => server.name === "signalbox")?.status ?? "";
        } else if (message.type === "system" && message.subtype === "api_retry") {
          outcome.retryCount += 1;
        } else if (message.type === "stream_event" && message.event.type === "content_block_delta") {
          onText?.();
        } else if (message.type === "user" && Array.isArray(message.message.content)) {
          for (const block of message.message.content) {
            if (block.type === "tool_result") outcome.toolResults.push(JSON.stringify(block.content));
          }
        } else if (message.type === "result") {
          outcome.answer = message.subtype === "success" ? message.result : message.subtype;
          outcome.isError = message.is_error;
          outcome.apiStatus = message.subtype === "success" ? (message.api_error_status ?? null) : null;
        }
      }
    } catch (thrown) {
      // After an error result the generator throws; what it says was in the result.
      if (!outcome.isError) throw thrown;
    }
    return outcome;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function optionsFor(folder: string, gatesUrl: string, env: Readonly<Record<string, string>>): Options {
  return {
    cwd: join(folder, "work"),
    tools: [],
    settingSources: [],
    strictMcpConfig: true,
    verbatimPrompts: true,
    includePartialMessages: true,
    mcpServersDelivery: "initialize",
    model: "sim/sim-1",
    systemPrompt: "You are a persona.",
    permissionMode: "default",
    canUseTool: (_name, input) => Promise.resolve({ behavior: "allow", updatedInput: input }),
    mcpServers: {
      signalbox: {
        type: "http",
        url: `${gatesUrl}/mcp/units/default`,
        headers: { Authorization: `Bearer ${TOKEN}` },
        alwaysLoad: true,
      },
    },
    env: {
      PATH: process.env.PATH ?? "",
      HOME: join(folder, "home"),
      CLAUDE_CONFIG_DIR: join(folder, "config"),
      CLAUDE_CODE_TMPDIR: join(folder, "temporary"),
      TMPDIR: join(folder, "temporary"),
      ANTHROPIC_BASE_URL: `${gatesUrl}/model`,
      ANTHROPIC_AUTH_TOKEN: TOKEN,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_ERROR_REPORTING: "1",
      DISABLE_TELEMETRY: "1",
      ...env,
    },
  };
}
