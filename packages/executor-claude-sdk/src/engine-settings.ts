/**
 * How an engine process is started: what it may see, what it may do, and where it talks to. Its environment is written
 * here in full; nothing of the worker's own reaches it. The slot token is the only credential in it, and neither the
 * token nor the address of a gate stands on its command line.
 */
import type { Options } from "@anthropic-ai/claude-agent-sdk";
import { wellFormed, type Snapshot } from "@signalbox/contract";
import type { SessionContext } from "@signalbox/worker";
import { LIMITS } from "./limits.ts";
import type { PrivateDirectories } from "./private-directories.ts";
import { denyUndecided, guardHook, TOOL_SERVER, type ToolGuard } from "./tool-guard.ts";
import { PROJECT_NAME, type TranscriptPlan } from "./transcript-plan.ts";

export interface EngineSettings {
  readonly context: SessionContext;
  readonly directories: PrivateDirectories;
  readonly plan: TranscriptPlan;
  readonly guard: ToolGuard;
}

/**
 * The engine tells the model where it works, in the first message and again in any that finds it elsewhere. A place of the
 * session's own would make every worker's prompt another one, which no provider's cache could serve. The engine has no
 * tool that reads or writes there.
 */
const WORKING_DIRECTORY = "/";

/** Everything but the parts that are code: where rows go, how the process is made, who reads its complaints. */
export function engineOptions(settings: EngineSettings): Options {
  const { context, directories, plan, guard } = settings;
  const { snapshot } = context;
  return {
    cwd: WORKING_DIRECTORY,
    env: { ...environmentOf(context, directories), ...(goesOn(plan) ? GOES_ON : {}) },
    // In full, as the agent names it: the gate maps it. The engine sends any `provider/model` as it is.
    model: snapshot.model,
    ...(plan.rows.size > 0 ? { resume: plan.sessionId } : { sessionId: plan.sessionId }),
    // The prompt of today, not the one a resumed session once recorded.
    systemPrompt: { type: "custom", prompt: wellFormed(snapshot.instructions), snapshot: false },
    ...(thinksAloud(snapshot) ? {} : { thinking: { type: "disabled" } }),
    // The gate counts model calls and refuses the one too many; this is for the case that it is never asked.
    maxTurns: snapshot.limits.modelCallCount + 1,
    includePartialMessages: true,
    sessionStoreFlush: "eager",
    // What a person wrote is text: no file is read because of an `@`, no command run because of a `/`.
    verbatimPrompts: true,
    tools: [],
    skills: [],
    settingSources: [],
    settings: { permissions: { deny: ["Read", "Edit", "Write", "Bash", "WebFetch"] } },
    permissionMode: "default",
    canUseTool: denyUndecided,
    hooks: { PreToolUse: [guardHook(guard)] },
    strictMcpConfig: true,
    // Over its input, because a command line can be read by everybody on the machine.
    mcpServersDelivery: "initialize",
    mcpServers: snapshot.tools.length === 0 ? {} : { [TOOL_SERVER]: toolServer(context) },
  };
}

function toolServer(context: SessionContext) {
  return {
    type: "http" as const,
    url: context.gates.tool,
    headers: { Authorization: `Bearer ${context.slotToken}` },
    alwaysLoad: true,
    timeout: context.snapshot.limits.wallClockMs,
  };
}

function environmentOf(context: SessionContext, directories: PrivateDirectories): Record<string, string> {
  const { snapshot } = context;
  return {
    PATH: "/usr/bin:/bin",
    LANG: "C.UTF-8",
    HOME: directories.home,
    TMPDIR: directories.temporary,
    CLAUDE_CODE_TMPDIR: directories.temporary,
    CLAUDE_CONFIG_DIR: directories.config,
    CLAUDE_CODE_PROJECT_DIR_NAME: PROJECT_NAME,
    ANTHROPIC_BASE_URL: context.gates.model,
    ANTHROPIC_AUTH_TOKEN: context.slotToken,
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(snapshot.maxOutputTokens),
    CLAUDE_CODE_MAX_RETRIES: String(LIMITS.modelRetryCount),
    // Told, because the engine looks a window up by names of its own, which a model behind the gate does not have.
    CLAUDE_CODE_AUTO_COMPACT_WINDOW: String(speaksAnthropic(snapshot) ? LIMITS.windowTokens : LIMITS.plainWindowTokens),
    ...QUIET,
    ...(speaksAnthropic(snapshot) ? { MAX_THINKING_TOKENS: String(thinkingTokens(snapshot)) } : PLAIN_WIRE),
  };
}

/** Whether the engine is to go on with the turn at the end of its transcript, without a message. */
function goesOn(plan: TranscriptPlan): boolean {
  return plan.unfinished !== null && plan.unfinished.answer === null;
}

const GOES_ON = { CLAUDE_CODE_RESUME_INTERRUPTED_TURN: "1" } as const;

/** No traffic but to the gates, no background work, no second way of asking a model. */
const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_TELEMETRY: "1",
  DISABLE_ERROR_REPORTING: "1",
  DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_ATTRIBUTION_HEADER: "0",
  CLAUDE_CODE_DISABLE_FILE_MENTIONS: "1",
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
  CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: "1",
  CLAUDE_CODE_DISABLE_REFUSAL_RETRY: "1",
  CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK: "1",
  CLAUDE_CODE_TOTAL_TOKENS_REMINDER: "off",
  CLAUDE_AGENT_SDK_DISABLE_BUILTIN_AGENTS: "1",
  // On an error event inside an open text block the engine gives up; when a stream just ends there it tries again.
  ANTHROPIC_CUSTOM_HEADERS: "signalbox-broken-stream: end",
} as const;

/**
 * For models that are not Anthropic's the engine would assume the newest of Anthropic's own; this leaves the classic
 * form of the wire: model, max_tokens, system, messages, tools, stream.
 */
const PLAIN_WIRE = {
  CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: "1",
  CLAUDE_CODE_MODEL_CAPABILITIES: [
    "-mid_conv_system",
    "-mid_conversation_system",
    "-adaptive_thinking",
    "-effort",
    "-context_management",
    "-mid_conv_tool_change",
    "-total_tokens_reminder",
  ].join(","),
} as const;

const LEAST_THINKING_TOKENS = 1_024;

function speaksAnthropic(snapshot: Snapshot): boolean {
  return snapshot.model.startsWith("anthropic/");
}

/**
 * Models that take a budget would by default think until one token of their output is left. Half is for the answer;
 * models that budget themselves ignore the number.
 */
function thinkingTokens(snapshot: Snapshot): number {
  return Math.floor(snapshot.maxOutputTokens / 2);
}

function thinksAloud(snapshot: Snapshot): boolean {
  return speaksAnthropic(snapshot) && thinkingTokens(snapshot) >= LEAST_THINKING_TOKENS;
}
