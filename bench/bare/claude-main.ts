/**
 * A bare `query()`: the Claude Agent SDK with its program, streaming input, no tools, no settings of anybody, speaking
 * to the same double. `BARE_WARM=1` keeps one program for all runs of a conversation; otherwise each run starts its own.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { query, type Options, type Query, type SDKUserMessage } from "@anthropic-ai/claude-agent-sdk";
import { serveBare } from "./serve-bare.ts";

const folder = mkdtempSync(join(tmpdir(), "sbx-bare-claude-"));
const warm = process.env.BARE_WARM === "1";

const options: Options = {
  cwd: folder,
  env: {
    PATH: "/usr/bin:/bin",
    LANG: "C.UTF-8",
    HOME: folder,
    TMPDIR: folder,
    CLAUDE_CONFIG_DIR: join(folder, "config"),
    ANTHROPIC_BASE_URL: process.env.BARE_MODEL_URL ?? "",
    ANTHROPIC_AUTH_TOKEN: "bare",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_AUTOUPDATER: "1",
    CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: "1",
  },
  model: process.env.BARE_MODEL ?? "",
  systemPrompt: process.env.BARE_INSTRUCTIONS ?? "",
  includePartialMessages: true,
  tools: [],
  settingSources: [],
};

interface Session {
  readonly query: Query;
  readonly send: (text: string) => void;
  readonly close: () => void;
}

let session: Session | null = null;

serveBare(
  async ({ text }, tell) => {
    const used = session ?? open();
    session = warm ? used : null;
    used.send(text);
    for (;;) {
      const { value: said, done } = await used.query.next();
      if (done === true) throw new Error("the program ended");
      if (said.type === "stream_event" && said.event.type === "content_block_delta") {
        if (said.event.delta.type === "text_delta") tell(said.event.delta.text);
      }
      if (said.type === "result") break;
    }
    if (!warm) used.close();
  },
  () => {
    session?.close();
    rmSync(folder, { recursive: true, force: true });
    return Promise.resolve();
  },
);

function open(): Session {
  const waiting: SDKUserMessage[] = [];
  let wake: (() => void) | null = null;
  let closed = false;
  async function* input(): AsyncGenerator<SDKUserMessage> {
    while (!closed) {
      const next = waiting.shift();
      if (next !== undefined) yield next;
      else await new Promise<void>((resolve) => (wake = resolve));
    }
  }
  const running = query({ prompt: input(), options });
  return {
    query: running,
    send(text) {
      waiting.push({
        type: "user",
        message: { role: "user", content: text },
        parent_tool_use_id: null,
        session_id: "",
      });
      wake?.();
    },
    close() {
      closed = true;
      wake?.();
      running.close();
    },
  };
}
