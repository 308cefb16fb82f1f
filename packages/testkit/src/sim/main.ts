#!/usr/bin/env node
/** `signalbox-sim`: the simulated model as a process of its own. Prints one line of JSON when it is up. */
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import { parseJson } from "./json.ts";
import { answersOfFile } from "./play-raw.ts";
import type { ScriptedAnswer } from "./script.ts";
import { readScriptForm } from "./script-form.ts";
import { type SimOptions, startSim } from "./server.ts";

const USAGE = `signalbox-sim [options]

  --port N                 0 (default) takes any free port
  --host ADDRESS           default 127.0.0.1
  --seed N                 default 1; ids, wordings and vectors depend on it
  --ids stable|unique      stable (default): the same request has the same ids
  --first-token-delay-ms N before the first token of every answer
  --token-delay-ms N       before each token
  --tokens N               answer everything with N tokens and look at nothing
  --timestamps             with --tokens: each token is the time it was written
  --thinking               write thinking blocks where a request allows them
  --api-key KEY            refuse requests without it
  --script FILE            a script as JSON, or recorded answers (.sse, .chunks.json); may be given several times
  --exit-with-parent       end when standard input is closed
  --help

A message can say how it is to be answered:
  [[sim:slow 200]] [[sim:wait 300]]       pauses in ms: before each token, before the first
  [[sim:tokens 500]] [[sim:think 30]]     filler instead of an answer, thinking before it
  [[sim:cut 20]] [[sim:hang 20]]          stop after so many tokens; [[sim:cut 20 1]]: the first time only
  [[sim:error 529]]                       answer with this status; [[sim:error 529 2]]: the first two times only
  [[sim:tool name {"argument":1}]]        call this tool once
  [[script:name]] [[script:off]]          play a named script from here on, or no longer
`;

async function main(): Promise<void> {
  const { values } = parseCommand();
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const sim = await startSim(await optionsOf(values));
  let isClosing = false;
  const stop = () => {
    if (!isClosing) {
      isClosing = true;
      process.stdin.pause();
      sim.close().catch(fail);
    }
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  if (values["exit-with-parent"] === true) {
    process.stdin.once("end", stop).once("close", stop).resume();
  }
  process.stdout.write(`${JSON.stringify({ url: sim.url, port: sim.port, pid: process.pid })}\n`);
}

type Values = ReturnType<typeof parseCommand>["values"];

function parseCommand() {
  try {
    return parseArgs({
      options: {
        port: { type: "string" },
        host: { type: "string" },
        seed: { type: "string" },
        ids: { type: "string" },
        "first-token-delay-ms": { type: "string" },
        "token-delay-ms": { type: "string" },
        tokens: { type: "string" },
        timestamps: { type: "boolean" },
        thinking: { type: "boolean" },
        "api-key": { type: "string" },
        script: { type: "string", multiple: true },
        "exit-with-parent": { type: "boolean" },
        help: { type: "boolean" },
      },
    });
  } catch (cause) {
    throw new PlatformError("invalid_request", "The options cannot be read.", { cause });
  }
}

async function optionsOf(values: Values): Promise<SimOptions> {
  const ids = values.ids === "stable" || values.ids === "unique" ? values.ids : undefined;
  if (ids === undefined && values.ids !== undefined) {
    throw new PlatformError("invalid_request", "--ids is stable or unique.");
  }
  const tokens = numberOf(values, "tokens");
  if (values.timestamps === true && tokens === undefined) {
    throw new PlatformError("invalid_request", "--timestamps needs --tokens.");
  }
  return {
    port: numberOf(values, "port"),
    host: values.host,
    seed: numberOf(values, "seed"),
    ids,
    firstTokenDelayMs: numberOf(values, "first-token-delay-ms"),
    tokenDelayMs: numberOf(values, "token-delay-ms"),
    instant: tokens === undefined ? undefined : { tokens, timestamps: values.timestamps ?? false },
    thinking: values.thinking,
    apiKey: values["api-key"],
    ...(await scriptOptions(values.script ?? [])),
  };
}

async function scriptOptions(files: readonly string[]): Promise<SimOptions> {
  const answers: ScriptedAnswer[] = [];
  let scripts: SimOptions["scripts"];
  for (const file of files) {
    const text = await readFile(file, "utf8").catch((cause: unknown) => {
      throw new PlatformError("invalid_request", `The script ${file} cannot be read.`, { cause });
    });
    const value = file.endsWith(".json") ? parseJson(text) : undefined;
    const isRecorded =
      value === undefined ||
      (typeof value === "object" && value !== null && ("chunks" in value || "sequence" in value));
    if (isRecorded) {
      answers.push(...(await answersOfFile(file)));
      continue;
    }
    const form = readScriptForm(value);
    answers.push(...(form.script ?? []));
    scripts = { ...scripts, ...form.scripts };
  }
  return { script: answers.length === 0 ? undefined : answers, scripts };
}

type NumberName = "port" | "seed" | "first-token-delay-ms" | "token-delay-ms" | "tokens";

function numberOf(values: Values, name: NumberName): number | undefined {
  const text = values[name];
  if (text === undefined) {
    return undefined;
  }
  if (!/^\d{1,9}$/.test(text)) {
    throw new PlatformError("invalid_request", `--${name} must be a whole number.`);
  }
  return Number(text);
}

/** 2 for what the caller can put right, 1 for everything else. */
function fail(thrown: unknown): void {
  const error = asPlatformError(thrown);
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : "";
  process.stderr.write(`signalbox-sim: ${error.detail}${cause}\n`);
  process.exitCode = error.code === "invalid_request" ? 2 : 1;
}

await main().catch(fail);
