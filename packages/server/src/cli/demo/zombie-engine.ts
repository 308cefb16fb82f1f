/**
 * An engine that does not listen: it holds on to what it was given and goes on after it was frozen, whoever owns its
 * conversation by then. A process of its own; says as lines of JSON what became of each of its attempts.
 *
 * `SIGNALBOX_DEMO_PART=zombie` waits, is frozen, and acts when it is told to; `=successor` answers at once.
 */
import { once } from "node:events";
import process from "node:process";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import {
  GateConnections,
  ModelClient,
  runWorkerProcess,
  ToolClient,
  type EngineSession,
  type Executor,
  type ModelMessage,
  type SessionContext,
  type StepInput,
  type StepResult,
} from "@signalbox/worker";

const RUNTIME = "demo_engine";
const TOOL = "payments__count";
const NEVER = new AbortController().signal;

const ANSWER: StepResult = {
  outcome: "done",
  answer: "The payment was made.",
  stopReason: "end_turn",
  leaf: null,
  servedModel: "sim/extractive-1",
  error: null,
};

const connections = new GateConnections();
const isZombie = process.env.SIGNALBOX_DEMO_PART === "zombie";

const executor: Executor = {
  describe: () =>
    Promise.resolve({
      name: RUNTIME,
      version: "1",
      available: true,
      problem: "",
      capabilities: ["streaming", "tools"],
    }),
  open: (context) => Promise.resolve(sessionOf(context)),
};

function sessionOf(context: SessionContext): EngineSession {
  return {
    leaf: null,
    rebind: () => undefined,
    step: (_input: StepInput, emit) => {
      const itemId = context.newItemId();
      return work(context, (text) => emit({ type: "text.completed", itemId, text }));
    },
    checkpoint: () => Promise.resolve({ schemaVersion: 1, leaf: null, sizeBytes: 0 }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function work(context: SessionContext, speak: (text: string) => Promise<void> | void): Promise<StepResult> {
  const proposed = await callModel(context);
  if (isZombie) {
    say({ at: "waiting" });
    await told();
    await attempt("model", () => callModel(context));
    await attempt("tool", () => callTool(context, proposed));
    await attempt("transcript", () => appendEntry(context));
    return { ...ANSWER, outcome: "failed", error: { code: "internal", detail: "A zombie has no answer." } };
  }
  await callTool(context, proposed);
  await speak(ANSWER.answer);
  return ANSWER;
}

function callModel({ gates, slotToken, snapshot }: SessionContext): Promise<ModelMessage> {
  const asked = `[[sim:tool ${TOOL} {"note":"payment"}]]`;
  const body = JSON.stringify({
    model: snapshot.model,
    max_tokens: 256,
    stream: true,
    messages: [{ role: "user", content: asked }],
    tools: [{ name: TOOL, description: "Makes the payment.", input_schema: { type: "object", properties: {} } }],
  });
  return new ModelClient(connections, gates.model, slotToken).send({ body, onDelta: () => undefined, signal: NEVER });
}

async function callTool({ gates, slotToken }: SessionContext, proposed: ModelMessage): Promise<void> {
  const block = proposed.content.find((each) => each.type === "tool_use");
  if (block?.type !== "tool_use") throw new Error("the model proposed no call");
  const client = new ToolClient(connections, { toolUrl: gates.tool, slotToken }, { name: RUNTIME, version: "1" });
  const call = { name: TOOL, input: block.input, toolUseId: block.id, signal: NEVER };
  const { isError, content } = await client.call(call);
  if (isError) throw new PlatformError("tool_outcome_unknown", content.map((each) => each.text ?? "").join(" "));
}

function appendEntry({ transcript }: SessionContext): Promise<void> {
  return transcript.append([{ kind: "item", entryId: "zombie", stream: "", body: Buffer.from("from a zombie") }]);
}

async function attempt(what: string, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
    say({ at: what, code: null });
  } catch (thrown) {
    say({ at: what, code: asPlatformError(thrown).code });
  }
}

/** Whoever froze this process says when it is to go on as if nothing had happened. */
async function told(): Promise<void> {
  await once(process.stdin, "data");
  process.stdin.destroy();
}

function say(line: Readonly<Record<string, unknown>>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// Last: what stands above must be there when the first session opens.
process.exitCode = await runWorkerProcess({
  platformUrl: process.argv[2] ?? "",
  joinToken: process.env.SIGNALBOX_JOIN_TOKEN ?? "",
  runtimes: { [RUNTIME]: () => Promise.resolve({ createExecutor: () => executor }) },
  defaultRuntime: RUNTIME,
  log: { info: () => undefined, warn: () => undefined, error: () => undefined },
});
