/** Finds the command, runs it, and turns every failure into a sentence and an exit code. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { SignalboxError } from "@signalbox/client";
import { PlatformError, type FieldError } from "@signalbox/contract";
import { ConfigurationError, type Environment } from "../config/environment.ts";
import { VERSION } from "../version.ts";
import { EXIT, UsageError, type Command, type ExitCode } from "./command.ts";
import { agentsCommand } from "./commands/agents.ts";
import { chatCommand } from "./commands/chat.ts";
import { conversationsCommand } from "./commands/conversations.ts";
import { demoCommand } from "./commands/demo.ts";
import { devCommand } from "./commands/dev.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { drainCommand } from "./commands/drain.ts";
import { eventsCommand } from "./commands/events.ts";
import { keysCommand } from "./commands/keys.ts";
import { explainCommand, runVerbCommands } from "./commands/operate.ts";
import { recoverCommand } from "./commands/recover.ts";
import { runsCommand } from "./commands/runs.ts";
import { serveCommand } from "./commands/serve.ts";
import { statusCommand } from "./commands/status.ts";
import { stopCommand } from "./commands/stop.ts";
import { approvalsCommand } from "./commands/approvals.ts";
import { toolsCommand } from "./commands/tools.ts";
import { webhooksCommand } from "./commands/webhooks.ts";
import { workerCommand } from "./commands/worker.ts";
import { Terminal } from "./terminal.ts";

const COMMANDS: readonly Command[] = [
  devCommand,
  serveCommand,
  workerCommand,
  drainCommand,
  chatCommand,
  agentsCommand,
  conversationsCommand,
  runsCommand,
  statusCommand,
  explainCommand,
  ...runVerbCommands,
  stopCommand,
  eventsCommand,
  approvalsCommand,
  toolsCommand,
  webhooksCommand,
  keysCommand,
  recoverCommand,
  doctorCommand,
  demoCommand,
];

const CAUSE_LIMIT = 8;

export interface CliProcess {
  readonly words: readonly string[];
  readonly environment: Environment;
  readonly input: NodeJS.ReadStream;
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  readonly interrupted: AbortSignal;
}

export async function runCli(cli: CliProcess): Promise<ExitCode> {
  const [name, ...words] = cli.words;
  if (name === "--version" || name === "-v") {
    cli.out.write(`${VERSION}\n`);
    return EXIT.done;
  }
  if (name === undefined || name === "help" || name === "--help" || name === "-h") return help(cli, words[0]);
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) return unknown(cli, name);
  try {
    return await call(cli, command, words);
  } catch (thrown) {
    if (cli.interrupted.aborted && isAbort(thrown)) return EXIT.failed;
    return explain(cli, command, thrown);
  }
}

async function call(cli: CliProcess, command: Command, words: readonly string[]): Promise<ExitCode> {
  const parsed = parseWords(command, words);
  if (parsed.values.help === true) return help(cli, command.name);
  const terminal = new Terminal({
    out: cli.out,
    err: cli.err,
    json: parsed.values.json === true,
    noColor: (cli.environment.NO_COLOR ?? "") !== "",
  });
  return command.run({
    flags: parsed.values,
    words: parsed.positionals,
    environment: cli.environment,
    terminal,
    input: cli.input,
    output: cli.out,
    interrupted: cli.interrupted,
  });
}

function parseWords(command: Command, words: readonly string[]) {
  try {
    const options: ParseArgsOptionsConfig = { ...command.options, help: { type: "boolean", short: "h" } };
    return parseArgs({
      args: [...words],
      options,
      allowPositionals: true,
      strict: true,
    });
  } catch (cause) {
    // Node goes on to explain how a word that begins with a dash is given; nobody meant one.
    const message = cause instanceof Error ? (cause.message.split(". To specify")[0] ?? "") : "the words are off";
    throw new UsageError(message, { cause });
  }
}

function help(cli: CliProcess, name: string | undefined): ExitCode {
  if (name === undefined) {
    cli.out.write(overview());
    return cli.words.length === 0 ? EXIT.usage : EXIT.done;
  }
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) return unknown(cli, name);
  cli.out.write(`${command.summary}\n\n${command.usage}\n`);
  return EXIT.done;
}

function unknown(cli: CliProcess, name: string): ExitCode {
  cli.err.write(`signalbox: there is no command "${name}". \`signalbox help\` lists them.\n`);
  return EXIT.usage;
}

/** What is said of a failure. Programs that asked for JSON get the same as one JSON line. */
interface Failure {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly detail: string;
  readonly fields: readonly FieldError[];
  readonly requestId: string | null;
  readonly more: string;
}

function explain(cli: CliProcess, command: Command, thrown: unknown): ExitCode {
  const { exitCode, more, ...error } = failureOf(command, thrown);
  if (cli.words.includes("--json")) {
    cli.err.write(`${JSON.stringify({ error: { ...error, causes: causesOf(thrown) } })}\n`);
    return exitCode;
  }
  const code = exitCode === EXIT.usage || error.code === "" ? "" : ` (${error.code})`;
  const lines = error.fields.map((field) => `  ${field.pointer}: ${field.detail}\n`);
  cli.err.write(`signalbox ${command.name}: ${error.detail}${code}\n${lines.join("")}${more}`);
  return exitCode;
}

function failureOf(command: Command, thrown: unknown): Failure {
  const plain = { fields: [], requestId: null, more: "" };
  if (thrown instanceof UsageError) {
    return { ...plain, exitCode: EXIT.usage, code: "usage", detail: thrown.message, more: `\n${command.usage}\n` };
  }
  if (thrown instanceof ConfigurationError) {
    return { ...plain, exitCode: EXIT.usage, code: "configuration", detail: thrown.message };
  }
  if (thrown instanceof SignalboxError) {
    const { code, message: detail, errors: fields, requestId } = thrown;
    return { exitCode: EXIT.failed, code, detail, fields, requestId, more: becauseOf(thrown) };
  }
  if (thrown instanceof PlatformError) {
    const { code, detail, fields } = thrown;
    return { ...plain, exitCode: EXIT.failed, code, detail, fields, more: becauseOf(thrown) };
  }
  const detail = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  return { ...plain, exitCode: EXIT.failed, code: "", detail };
}

/** Whoever runs a command on this machine may see why it failed inside; a caller of the API may not. */
function causesOf(thrown: unknown): readonly string[] {
  const causes: string[] = [];
  let cause = thrown instanceof Error ? thrown.cause : null;
  while (cause instanceof Error && causes.length < CAUSE_LIMIT) {
    causes.push(cause.message);
    cause = cause.cause;
  }
  return causes;
}

function becauseOf(thrown: unknown): string {
  return causesOf(thrown)
    .map((cause) => `  because: ${cause}\n`)
    .join("");
}

/** Being interrupted is no failure that needs words. */
function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

function overview(): string {
  const width = Math.max(...COMMANDS.map((command) => command.name.length));
  const lines = COMMANDS.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`);
  return `signalbox ${VERSION}: run AI agents inside products\n\n${lines.join("\n")}\n\nEvery command takes --help, and --json where it answers something.\n`;
}
