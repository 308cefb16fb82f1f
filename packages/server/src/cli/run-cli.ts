/** Finds the command, runs it, and turns every failure into a sentence and an exit code. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { SignalboxError } from "@signalbox/client";
import { PlatformError } from "@signalbox/contract";
import { ConfigurationError, type Environment } from "../config/environment.ts";
import { EXIT, UsageError, type Command, type ExitCode } from "./command.ts";
import { agentsCommand } from "./commands/agents.ts";
import { chatCommand } from "./commands/chat.ts";
import { conversationsCommand } from "./commands/conversations.ts";
import { devCommand } from "./commands/dev.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { eventsCommand } from "./commands/events.ts";
import { keysCommand } from "./commands/keys.ts";
import { runsCommand } from "./commands/runs.ts";
import { serveCommand } from "./commands/serve.ts";
import { workerCommand } from "./commands/worker.ts";
import { Terminal } from "./terminal.ts";

const COMMANDS: readonly Command[] = [
  devCommand,
  serveCommand,
  workerCommand,
  chatCommand,
  agentsCommand,
  conversationsCommand,
  runsCommand,
  eventsCommand,
  keysCommand,
  doctorCommand,
];

const CAUSE_LIMIT = 8;

export interface CliProcess {
  readonly words: readonly string[];
  readonly environment: Environment;
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  readonly interrupted: AbortSignal;
}

export async function runCli(cli: CliProcess): Promise<ExitCode> {
  const [name, ...words] = cli.words;
  if (name === undefined || name === "help" || name === "--help" || name === "-h") {
    cli.out.write(overview());
    return name === undefined ? EXIT.usage : EXIT.done;
  }
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined) {
    cli.err.write(`signalbox: there is no command "${name}". \`signalbox help\` lists them.\n`);
    return EXIT.usage;
  }
  try {
    return await call(cli, command, words);
  } catch (thrown) {
    if (cli.interrupted.aborted) return EXIT.failed;
    return explain(cli, command, thrown);
  }
}

async function call(cli: CliProcess, command: Command, words: readonly string[]): Promise<ExitCode> {
  const parsed = parseWords(command, words);
  if (parsed.values.help === true) {
    cli.out.write(`${command.summary}\n\n${command.usage}\n`);
    return EXIT.done;
  }
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
    throw new UsageError(cause instanceof Error ? cause.message : "the words are off", { cause });
  }
}

function explain(cli: CliProcess, command: Command, thrown: unknown): ExitCode {
  if (thrown instanceof UsageError) {
    cli.err.write(`signalbox ${command.name}: ${thrown.message}\n\n${command.usage}\n`);
    return EXIT.usage;
  }
  if (thrown instanceof ConfigurationError) {
    cli.err.write(`signalbox ${command.name}: ${thrown.message}\n`);
    return EXIT.usage;
  }
  if (thrown instanceof SignalboxError || thrown instanceof PlatformError) {
    const details = thrown instanceof SignalboxError ? thrown.errors : thrown.fields;
    const lines = details.map((field) => `  ${field.pointer}: ${field.detail}\n`).join("");
    cli.err.write(`signalbox ${command.name}: ${thrown.message} (${thrown.code})\n${lines}${causesOf(thrown)}`);
    return EXIT.failed;
  }
  cli.err.write(
    `signalbox ${command.name}: ${thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)}\n`,
  );
  return EXIT.failed;
}

/** Whoever runs a command on this machine may see why it failed inside; a caller of the API may not. */
function causesOf(error: Error): string {
  const lines: string[] = [];
  let cause = error.cause;
  while (cause instanceof Error && lines.length < CAUSE_LIMIT) {
    lines.push(`  because: ${cause.message}\n`);
    cause = cause.cause;
  }
  return lines.join("");
}

function overview(): string {
  const width = Math.max(...COMMANDS.map((command) => command.name.length));
  const lines = COMMANDS.map((command) => `  ${command.name.padEnd(width)}  ${command.summary}`);
  return `signalbox: run AI agents inside products\n\n${lines.join("\n")}\n\nEvery command takes --help, and --json where it answers something.\n`;
}
