/** LangGraph behind the Executor interface. The library itself is imported when the first session opens, or in `warm`. */
import { createRequire } from "node:module";
import { PlatformError } from "@signalbox/contract";
import {
  GateConnections,
  type CreateExecutor,
  type EngineSession,
  type Executor,
  type SessionContext,
} from "@signalbox/worker";

const RUNTIME = "langgraph";
const LIBRARY = "@langchain/langgraph";
const CLIENT_NAME = "signalbox-langgraph";

/** Tracing of the library would send a conversation to its vendor when the environment happens to ask for it. */
const TRACING_SWITCHES = ["LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"];

/** What a worker imports. Describing costs no import of the library. */
export const createExecutor: CreateExecutor = () => new LanggraphExecutor(libraryVersion());

class LanggraphExecutor implements Executor {
  readonly #version: string | null;
  readonly #connections = new GateConnections();

  constructor(version: string | null) {
    this.#version = version;
  }

  describe() {
    return Promise.resolve({
      name: RUNTIME,
      version: this.#version ?? "",
      available: this.#version !== null,
      problem: this.#version === null ? `The package ${LIBRARY} is not installed.` : "",
      capabilities: ["streaming", "tools", "parallel_tools", "interrupt", "steering", "native_resume", "rebuild"],
    });
  }

  async open(context: SessionContext): Promise<EngineSession> {
    if (this.#version === null) {
      throw new PlatformError("SDK_UNAVAILABLE", `The package ${LIBRARY} is not installed.`);
    }
    const { openSession } = await load();
    const client = { name: CLIENT_NAME, version: this.#version };
    return openSession(context, { connections: this.#connections, client });
  }

  async warm(): Promise<void> {
    if (this.#version !== null) {
      await load();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#connections[Symbol.dispose]();
    return Promise.resolve();
  }
}

async function load() {
  for (const name of TRACING_SWITCHES) {
    process.env[name] = "false";
  }
  return import("./session.ts");
}

function libraryVersion(): string | null {
  try {
    const manifest: unknown = createRequire(import.meta.url)(`${LIBRARY}/package.json`);
    return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : null;
  } catch {
    return null;
  }
}
