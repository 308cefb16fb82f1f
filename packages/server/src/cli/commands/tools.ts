import { APPROVE_MODES, EFFECT_CLASSES, PIN_STATES, type Tool, type ToolDetail } from "@signalbox/contract";
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
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";

const OWN_OPTIONS = {
  server: { type: "string" },
  state: { type: "string" },
  digest: { type: "string" },
  effect: { type: "string" },
  ask: { type: "string" },
  trusted: { type: "string" },
  "timeout-ms": { type: "string" },
} as const;

interface Verb {
  readonly words: number;
  readonly flags: readonly string[];
  readonly run: (call: CommandCall, name: string) => Promise<ExitCode>;
}

const CLASSES = ["effect", "ask", "trusted", "timeout-ms"] as const;

const VERBS: Readonly<Record<string, Verb>> = {
  list: { words: 0, flags: [...Object.keys(LIST_OPTIONS), "server", "state"], run: list },
  show: { words: 1, flags: [], run: async (call, name) => show(call, await clientOf(call).tools.get(name)) },
  approve: { words: 1, flags: ["digest"], run: approve },
  classify: { words: 1, flags: CLASSES, run: classify },
  servers: { words: 0, flags: [], run: servers },
};

export const toolsCommand: Command = {
  name: "tools",
  summary: "See what tool servers offer, what changed in it, approve it, and say what each tool does",
  usage: `signalbox tools [list] [--server NAME] [--state ${PIN_STATES.join("|")}] [--limit 50] [--cursor CURSOR]
signalbox tools show TOOL                       with what differs from what was approved, and the digest of it
signalbox tools approve TOOL --digest DIGEST    what was shown under this digest, and nothing else
signalbox tools classify TOOL [--effect ${EFFECT_CLASSES.join("|")}] [--ask ${APPROVE_MODES.join("|")}]
                              [--trusted yes|no] [--timeout-ms 30000|none]
signalbox tools servers                         where they are, and what is wrong with them

TOOL is its name as models see it, server__tool.`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...OWN_OPTIONS },
  async run(call) {
    const [name = "list", ...words] = call.words;
    const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
    if (verb === undefined) throw new UsageError(`there is no "tools ${name}"`);
    if (words.length > verb.words) throw new UsageError("too many words");
    const [tool] = words;
    if (verb.words > 0 && tool === undefined) throw new UsageError("name a tool");
    for (const flag of [...Object.keys(LIST_OPTIONS), ...Object.keys(OWN_OPTIONS)]) {
      if (!verb.flags.includes(flag)) refuseFlags(call, [flag], `tools ${ownerOf(flag)}`);
    }
    return await verb.run(call, tool ?? "");
  },
};

function ownerOf(flag: string): string {
  return Object.entries(VERBS).find(([, { flags }]) => flags.includes(flag))?.[0] ?? "list";
}

async function list(call: CommandCall): Promise<ExitCode> {
  const server = textFlag(call, "server");
  const state = oneOf(call, "state", PIN_STATES);
  const filter = {
    ...listFlags(call),
    ...(server === undefined ? {} : { server }),
    ...(state === undefined ? {} : { state }),
  };
  tellPage(call.terminal, await clientOf(call).tools.list(filter), {
    none: "No tools. Name their servers in the file of --mcp-servers.",
    row: (tool) => [tool.name, stateOf(tool), tool.classified ? tool.effect : "unclassified", `ask: ${tool.approve}`],
  });
  return EXIT.done;
}

function stateOf({ state, offered }: Tool): string {
  return offered ? state : `${state}, not offered now`;
}

async function approve(call: CommandCall, name: string): Promise<ExitCode> {
  const digest = textFlag(call, "digest");
  if (digest === undefined) throw new UsageError(`say what was shown: --digest, from \`signalbox tools show ${name}\``);
  const tool = await clientOf(call).tools.approve(name, digest);
  if (call.terminal.json) call.terminal.value(tool);
  else call.terminal.line(`${tool.name} is ${stateOf(tool)}.`);
  return EXIT.done;
}

async function classify(call: CommandCall, name: string): Promise<ExitCode> {
  const effect = oneOf(call, "effect", EFFECT_CLASSES);
  const ask = oneOf(call, "ask", APPROVE_MODES);
  const trusted = oneOf(call, "trusted", ["yes", "no"]);
  const timeout = textFlag(call, "timeout-ms");
  const timeoutMs = timeout === undefined ? undefined : timeout === "none" ? null : Number(timeout);
  if (Number.isNaN(timeoutMs)) throw new UsageError('--timeout-ms takes a number, or "none"');
  const change = {
    ...(effect === undefined ? {} : { effect }),
    ...(ask === undefined ? {} : { approve: ask }),
    ...(trusted === undefined ? {} : { trusted: trusted === "yes" }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
  if (Object.keys(change).length === 0) {
    throw new UsageError(`say something of it: ${CLASSES.map((each) => `--${each}`).join(", ")}`);
  }
  const tool = await clientOf(call).tools.classify(name, change);
  if (call.terminal.json) call.terminal.value(tool);
  else call.terminal.line(`${tool.name}: ${sayings(tool)}.`);
  return EXIT.done;
}

function sayings({ classified, effect, approve: ask, trusted, timeoutMs }: Tool): string {
  const does = classified ? effect : "unclassified, which counts as irreversible";
  const time = timeoutMs === null ? "" : `, ${timeoutMs} ms at most`;
  return `${does}, ask: ${ask}, ${trusted ? "its answers are vouched for" : "its answers are texts of strangers"}${time}`;
}

function show({ terminal }: CommandCall, tool: ToolDetail): ExitCode {
  if (terminal.json) {
    terminal.value(tool);
    return EXIT.done;
  }
  terminal.line(`${tool.name}  ${tool.title}`);
  terminal.line(`state       ${stateOf(tool)}`);
  terminal.line(`operator    ${sayings(tool)}`);
  terminal.line(`server      ${tool.origin ?? "not listed since the upgrade"}`);
  for (const { grade, code, pointer, detail } of tool.lints) {
    terminal.line(`${grade.padEnd(11)} ${code} at ${pointer}: ${detail}`);
  }
  if (tool.listed === null) terminal.line(`definition  ${textOf(tool.definition)}`);
  else {
    if (tool.listed.origin !== tool.origin) terminal.line(`moved       to ${tool.listed.origin}`);
    for (const { pointer, before, after } of tool.listed.changes) {
      terminal.line(`changed     ${pointer}`);
      terminal.line(`  was       ${textOf(before)}`);
      terminal.line(`  is        ${textOf(after)}`);
    }
  }
  terminal.line(`digest      ${tool.digest}`);
  if (tool.state !== "approved" || tool.listed !== null) {
    terminal.note(`To approve exactly this: signalbox tools approve ${tool.name} --digest ${tool.digest}`);
  }
  return EXIT.done;
}

/** With everything escaped that a terminal would not show. */
function textOf(value: unknown): string {
  return value === undefined ? "(nothing)" : JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, escaped);
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

async function servers(call: CommandCall): Promise<ExitCode> {
  const all = await clientOf(call).tools.servers();
  tellPage(
    call.terminal,
    { data: [...all], nextCursor: null },
    {
      none: "No tool servers.",
      row: ({ name, transport, origin, problem, leftOut }) => [
        name,
        transport,
        origin,
        problem ?? "reached",
        leftOut.length === 0 ? "" : `${leftOut.length} tools left out`,
      ],
    },
  );
  return EXIT.done;
}

function oneOf<Word extends string>(call: CommandCall, flag: string, words: readonly Word[]): Word | undefined {
  const given = textFlag(call, flag);
  const found = words.find((word) => word === given);
  if (given !== undefined && found === undefined) throw new UsageError(`--${flag} takes one of ${words.join(", ")}`);
  return found;
}
