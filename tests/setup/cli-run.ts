/** The command line in this process: what it writes, with or without a terminal, and its exit code. */
import { PassThrough, Writable } from "node:stream";
import { runCli } from "../../packages/server/src/cli/run-cli.ts";

export interface CliRun {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

export interface CliOptions {
  readonly environment?: Readonly<Record<string, string>>;
  /** Whether a person reads. Default false. */
  readonly terminal?: boolean;
  /** What is piped in. Default: nothing. */
  readonly input?: string;
  readonly interrupted?: AbortSignal;
  /** Told whatever is written, as it is. */
  readonly onOutput?: (text: string) => void;
}

export async function runSignalbox(words: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const { environment = {}, terminal = false, input = "", onOutput = () => undefined } = options;
  const out = collector(terminal, onOutput);
  const err = collector(terminal, onOutput);
  const stdin = new PassThrough();
  stdin.end(input);
  const exitCode = await runCli({
    words,
    environment,
    // Streams with what commands look at; a terminal's own methods are not used.
    input: stdin as unknown as NodeJS.ReadStream,
    out: out.stream as unknown as NodeJS.WriteStream,
    err: err.stream as unknown as NodeJS.WriteStream,
    interrupted: options.interrupted ?? new AbortController().signal,
  });
  return { exitCode, out: out.text(), err: err.text() };
}

function collector(isTTY: boolean, onOutput: (text: string) => void) {
  let text = "";
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      onOutput(String(chunk));
      done();
    },
  });
  return { stream: Object.assign(stream, isTTY ? { isTTY } : {}), text: () => text };
}
