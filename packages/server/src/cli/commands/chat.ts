/** Talk to an agent: one message with `--message`, or a conversation on a terminal. */
import { createInterface } from "node:readline/promises";
import { SignalboxError, type ConversationHandle, type RunHandle } from "@signalbox/client";
import type { EventOf } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import type { Terminal } from "../terminal.ts";

export const chatCommand: Command = {
  name: "chat",
  summary: "Talk to an agent",
  usage: `signalbox chat [AGENT]                       a conversation; Ctrl-C stops an answer, Ctrl-D ends
signalbox chat [AGENT] --message TEXT        one message; without --message what is piped in
signalbox chat --conversation ID             go on with a conversation`,
  options: { ...CONNECTION_OPTIONS, message: { type: "string", short: "m" }, conversation: { type: "string" } },
  async run(call) {
    const [agent, ...rest] = call.words;
    const known = textFlag(call, "conversation");
    if (rest.length > 0) throw new UsageError("name one agent");
    if (known !== undefined && agent !== undefined) throw new UsageError("a conversation has its agent already");
    const message = textFlag(call, "message") ?? (call.input.isTTY ? null : await readAll(call.input));
    if (message === null && call.terminal.json) throw new UsageError("--json answers one message: give --message TEXT");
    if (message !== null && message.trim() === "") throw new UsageError("there is nothing to say");
    const conversation = await openConversation(call, { agent, known });
    if (message === null) return converse(call, conversation);
    return answer(call, { conversation, text: message, stop: call.interrupted });
  },
};

async function openConversation(
  call: CommandCall,
  named: { readonly agent: string | undefined; readonly known: string | undefined },
): Promise<ConversationHandle> {
  const client = clientOf(call);
  if (named.known !== undefined) return client.conversations.open(named.known);
  const name = named.agent ?? (await client.agents.list({ limit: 1, order: "asc" })).data[0]?.name;
  if (name === undefined) throw new UsageError("there are no agents yet; make one with `signalbox agents create`");
  return client.conversations.create({ agent: name });
}

async function converse(call: CommandCall, conversation: ConversationHandle): Promise<ExitCode> {
  const { terminal } = call;
  const { agent } = await conversation.get();
  terminal.line(`${terminal.style("bold", agent.name)} ${terminal.style("dim", conversation.id)}`);
  const input = createInterface({ input: call.input, output: call.output, historySize: 100 });
  const closed = new AbortController();
  let stop: AbortController | null = null;
  // Ctrl-C stops an answer; where there is none it ends the conversation, as the end of input does.
  input.on("SIGINT", () => (stop === null ? input.close() : stop.abort()));
  input.on("close", () => closed.abort());
  const end = (): void => input.close();
  call.interrupted.addEventListener("abort", end, { once: true });
  try {
    while (!closed.signal.aborted) {
      const text = await input.question(`${terminal.style("cyan", "›")} `, { signal: closed.signal });
      if (text.trim() === "") continue;
      stop = new AbortController();
      await answerOrExplain(call, { conversation, text, stop: AbortSignal.any([stop.signal, closed.signal]) });
      stop = null;
    }
  } catch (thrown) {
    if (!closed.signal.aborted) throw thrown;
  } finally {
    call.interrupted.removeEventListener("abort", end);
    input.close();
  }
  terminal.line();
  return EXIT.done;
}

interface Said {
  readonly conversation: ConversationHandle;
  readonly text: string;
  readonly stop: AbortSignal;
}

/** A message that is refused, or an answer that is lost, does not end the conversation. */
async function answerOrExplain(call: CommandCall, said: Said): Promise<void> {
  try {
    await answer(call, said);
  } catch (thrown) {
    if (!(thrown instanceof SignalboxError)) throw thrown;
    call.terminal.note(call.terminal.style("red", `${thrown.message} (${thrown.code})`));
  }
}

async function answer(call: CommandCall, said: Said): Promise<ExitCode> {
  const { terminal } = call;
  const { run, accepted } = await said.conversation.sendDetailed(said.text);
  const cancel = (): void => {
    terminal.note(terminal.style("yellow", "stopping …"));
    run.cancel().catch((thrown: unknown) => terminal.note(thrown instanceof Error ? thrown.message : String(thrown)));
  };
  if (said.stop.aborted) cancel();
  said.stop.addEventListener("abort", cancel, { once: true });
  try {
    if (terminal.json) return await tell(terminal, said.conversation.id, run);
    terminal.progress(accepted.accepted === "queued" ? "waiting for the answer before this one …" : "thinking …");
    return await follow(terminal, run);
  } finally {
    said.stop.removeEventListener("abort", cancel);
  }
}

async function tell(terminal: Terminal, conversationId: string, run: RunHandle): Promise<ExitCode> {
  const result = await run.result();
  terminal.value({ conversationId, runId: run.id, ...result });
  return result.outcome === "completed" ? EXIT.done : EXIT.failed;
}

async function follow(terminal: Terminal, run: RunHandle): Promise<ExitCode> {
  let atLineStart = true;
  const write = (text: string): void => {
    terminal.text(text);
    if (text !== "") atLineStart = text.endsWith("\n");
  };
  const freshLine = (): void => {
    if (!atLineStart) write("\n");
  };
  for await (const event of run.events()) {
    if (event.type === "text.delta") write(event.text);
    if (event.type === "text.completed") freshLine();
    if (event.type === "text.retracted") {
      freshLine();
      terminal.line(terminal.style("dim", "(what stands above was taken back)"));
    }
    if (event.type === "hold.opened") {
      freshLine();
      terminal.note(terminal.style("yellow", waiting(event, run.id)));
    }
    if (event.type === "run.phase") terminal.progress(`${event.phase.replaceAll("_", " ")} …`);
    if (event.type === "tool.started") {
      freshLine();
      terminal.line(terminal.style("dim", terminal.plain(`→ ${event.title} ${event.argumentsSummary}`)));
    }
    if (event.type === "run.finished") {
      freshLine();
      if (event.outcome === "completed") return EXIT.done;
      const why = event.error === null ? event.reason : `${event.error.code}: ${event.error.detail}`;
      terminal.note(terminal.style(event.outcome === "failed" ? "red" : "yellow", `${event.outcome} (${why})`));
      return EXIT.failed;
    }
  }
  return EXIT.failed;
}

/** Nothing comes until somebody does something elsewhere; whoever waits is told what. */
function waiting({ kind, holdId }: EventOf<"hold.opened">, runId: string): string {
  switch (kind) {
    case "operator":
      return `paused by an operator; it goes on when that is lifted (signalbox explain ${runId}) …`;
    case "approval":
      return `waits for somebody to approve a call: signalbox approvals show ${holdId} …`;
    default:
      return `waits for ${kind} ${holdId} …`;
  }
}

async function readAll(input: NodeJS.ReadStream): Promise<string> {
  let text = "";
  input.setEncoding("utf8");
  for await (const chunk of input) text += String(chunk);
  return text;
}
