import { PlatformError } from "@signalbox/contract";
import {
  GateConnections,
  ToolClient,
  type EngineSession,
  type Executor,
  type ExecutorOptions,
  type RuntimeDescription,
  type SessionContext,
} from "@signalbox/worker";
import { ClaudeSession, ENGINE_GONE } from "./claude-session.ts";
import { findDeathTie, type DeathTie } from "./engine-process.ts";
import { engineOptions } from "./engine-settings.ts";
import { Engine } from "./engine.ts";
import { findInstallation, loadSdk, type Sdk } from "./installation.ts";
import {
  makePrivateDirectories,
  removePrivateDirectories,
  sweepAbandoned,
  type PrivateDirectories,
} from "./private-directories.ts";
import { engineToolNames, TOOL_SERVER } from "./tool-guard.ts";
import { TranscriptMirror } from "./transcript-mirror.ts";
import { planTranscript, writeTranscript, type TranscriptPlan } from "./transcript-plan.ts";

const RUNTIME = "claude_sdk";
/** Who asks the tool gate for calls that the engine lost. */
const CLIENT_NAME = "signalbox-claude-sdk";
const CAPABILITIES = [
  "streaming",
  "thinking",
  "tools",
  "interrupt",
  "native_resume",
  "rebuild",
  "warm_process",
] as const;

/**
 * Runs the Claude Agent SDK. Opening a session starts its process, so that the first step finds it warm. Ends with
 * `SDK_UNAVAILABLE` where the SDK is not installed, `transcript_corrupt` when what is stored cannot be continued,
 * `tool_upstream_failed` when the tool gate cannot be reached, `engine_failed` when the process does not start, and
 * with what the record gate answers.
 */
export async function createExecutor(options: ExecutorOptions): Promise<Executor> {
  await sweepAbandoned(options.scratchDir);
  const connections = new GateConnections();
  let found: Promise<DeathTie> | null = null;
  const tie = async (): Promise<DeathTie> => (found ??= findDeathTie());
  return {
    describe: async () => describe(),
    warm: async () => {
      await Promise.all([loadSdk(), tie()]);
    },
    open: async (context) => {
      const sdk = await loadSdk();
      const gate = { toolUrl: context.gates.tool, slotToken: context.slotToken };
      const client = { name: CLIENT_NAME, version: findInstallation().version };
      const plan = await planTranscript(context, new ToolClient(connections, gate, client));
      const directories = await makePrivateDirectories(options.scratchDir);
      try {
        return await openSession({ context, sdk, plan, directories, tie: await tie() });
      } catch (error) {
        await removePrivateDirectories(directories.root);
        throw error;
      }
    },
    [Symbol.asyncDispose]: async () => connections[Symbol.dispose](),
  };
}

function describe(): RuntimeDescription {
  const { version, problem } = findInstallation();
  return { name: RUNTIME, version, available: problem === "", problem, capabilities: CAPABILITIES };
}

interface Opening {
  readonly context: SessionContext;
  readonly sdk: Sdk;
  readonly plan: TranscriptPlan;
  readonly directories: PrivateDirectories;
  readonly tie: DeathTie;
}

async function openSession(opening: Opening): Promise<EngineSession> {
  const { context, plan, directories } = opening;
  await writeTranscript(plan, directories);
  const toolNames = engineToolNames(context.snapshot);
  let session: ClaudeSession | null = null;
  const mirror = new TranscriptMirror({
    log: context.transcript,
    sessionId: plan.sessionId,
    leaf: plan.leaf,
    sizeBytes: plan.sizeBytes,
    onRefused: (code, detail) => session?.lose({ code, detail }, { isFenced: true }),
  });
  const guard = { names: toolNames, isOpen: () => session?.isTakingCalls === true };
  const engine = await Engine.start({
    sdk: opening.sdk,
    tie: opening.tie,
    options: {
      ...engineOptions({ context, directories, plan, guard }),
      sessionStore: {
        append: async (key, rows) => mirror.append(key, rows),
        // The engine finds its transcript in its own directory.
        load: async () => null,
        listSubkeys: async () => [],
      },
    },
    onDeath: (report) => session?.lose(ENGINE_GONE, { isFenced: true, report }),
  });
  const opened = new ClaudeSession({
    context,
    engine,
    mirror,
    directory: directories.root,
    unanswered: plan.unanswered,
    unfinished: plan.unfinished,
  });
  session = opened;
  if (toolNames.size > 0 && (await engine.toolServerStatus(TOOL_SERVER)) !== "connected") {
    await opened[Symbol.asyncDispose]();
    throw new PlatformError("tool_upstream_failed", "The engine could not connect to the tool gate.");
  }
  return opened;
}
