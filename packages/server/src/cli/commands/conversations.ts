import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  refuseFlags,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import type { ConversationHandle } from "@signalbox/client";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";

const FILTER_OPTIONS = {
  q: { type: "string" },
  archived: { type: "string" },
  agent: { type: "string" },
} as const;
const FORK_OPTIONS = { message: { type: "string" } } as const;

const ARCHIVED = ["false", "true", "all"] as const;

type Act = (call: CommandCall, conversation: ConversationHandle, title: string | undefined) => Promise<ExitCode>;

const VERBS: Readonly<Record<string, Act>> = {
  show,
  rename,
  archive: (call, conversation) => put(call, conversation, true),
  unarchive: (call, conversation) => put(call, conversation, false),
  fork,
  delete: remove,
};

export const conversationsCommand: Command = {
  name: "conversations",
  summary: "List, find, show, rename, archive, fork and delete conversations",
  usage: `signalbox conversations [--q WORDS] [--agent NAME] [--archived true|false|all]
                        [--limit 50] [--cursor CURSOR]   list, newest first
signalbox conversations show ID                          the history
signalbox conversations rename ID TITLE                  an empty TITLE takes it away
signalbox conversations archive|unarchive ID             out of lists, and into them again
signalbox conversations fork ID [--message ID]           a new one that begins with its history
signalbox conversations delete ID                        cancels its runs and removes it`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...FILTER_OPTIONS, ...FORK_OPTIONS },
  async run(call) {
    const [verb = "list", id, title, ...rest] = call.words;
    const act = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (act === undefined && verb !== "list") throw new UsageError(`there is no "conversations ${verb}"`);
    const extra = title !== undefined && verb !== "rename";
    if (rest.length > 0 || extra || (verb === "list" && id !== undefined)) throw new UsageError("too many words");
    if (verb !== "fork") refuseFlags(call, Object.keys(FORK_OPTIONS), "conversations fork");
    if (act === undefined) return list(call);
    if (id === undefined) throw new UsageError(`name a conversation to ${verb}`);
    refuseFlags(call, [...Object.keys(LIST_OPTIONS), ...Object.keys(FILTER_OPTIONS)], "conversations");
    return act(call, clientOf(call).conversations.open(id), title);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const { terminal } = call;
  const q = textFlag(call, "q");
  const agent = textFlag(call, "agent");
  const word = textFlag(call, "archived");
  const archived = ARCHIVED.find((each) => each === word);
  if (word !== undefined && archived === undefined) throw new UsageError("--archived takes true, false or all");
  const filter = {
    ...listFlags(call),
    ...(q === undefined ? {} : { q }),
    ...(agent === undefined ? {} : { agent }),
    ...(archived === undefined ? {} : { archived }),
  };
  const filtered = q !== undefined || agent !== undefined || archived !== undefined;
  tellPage(terminal, await clientOf(call).conversations.list(filter), {
    none: filtered ? "No such conversations." : "No conversations yet. Begin one with `signalbox chat`.",
    row: (each) => [
      each.id,
      each.agent.name,
      each.archived ? "archived" : (each.activeRun?.status ?? "idle"),
      each.createdAt,
      terminal.plain(each.title ?? ""),
    ],
  });
  return EXIT.done;
}

async function show(call: CommandCall, conversation: ConversationHandle): Promise<ExitCode> {
  const { terminal } = call;
  for await (const message of conversation.messages()) {
    if (terminal.json) {
      terminal.value(message);
    } else {
      const marks = `${message.partial ? " (stopped)" : ""}${message.struck ? " (struck)" : ""}`;
      terminal.line(`${terminal.style("bold", message.role)}${marks}`);
      terminal.line(`${terminal.plain(message.content)}\n`);
    }
  }
  return EXIT.done;
}

async function rename(call: CommandCall, conversation: ConversationHandle, title?: string): Promise<ExitCode> {
  if (title === undefined) throw new UsageError("say the new title");
  const renamed = await conversation.update({ title: title === "" ? null : title });
  const said = renamed.title === null ? "has no title now" : `is now "${call.terminal.plain(renamed.title)}"`;
  return tell(call, renamed, `${renamed.id} ${said}`);
}

async function put(call: CommandCall, conversation: ConversationHandle, archived: boolean): Promise<ExitCode> {
  const changed = await conversation.update({ archived });
  return tell(call, changed, `${changed.id} is ${changed.archived ? "archived" : "in lists again"}`);
}

async function fork(call: CommandCall, conversation: ConversationHandle): Promise<ExitCode> {
  const messageId = textFlag(call, "message");
  const forked = await conversation.fork(messageId === undefined ? {} : { messageId });
  if (call.terminal.json) return tell(call, await forked.get(), "");
  return tell(call, null, `${forked.id} begins with what was said in ${conversation.id}`);
}

async function remove(call: CommandCall, conversation: ConversationHandle): Promise<ExitCode> {
  const state = await conversation.delete();
  const said = state === "deleted" ? "is gone" : "takes no message any more, and is gone once its last call has ended";
  return tell(call, { id: conversation.id, state }, `${conversation.id} ${said}`);
}

function tell(call: CommandCall, value: object | null, sentence: string): ExitCode {
  if (call.terminal.json) call.terminal.value(value);
  else call.terminal.line(sentence);
  return EXIT.done;
}
