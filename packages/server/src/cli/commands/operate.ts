/** What operators ask of one run: pause, resume, retry, fail, release, explain. One command per verb. */
import type { Explanation, Run } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  isSet,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";

interface Verb {
  readonly name: string;
  readonly summary: string;
  readonly forced?: boolean;
  readonly ask: (call: CommandCall, run: string) => Promise<Run>;
  /** What was done, in a sentence. Default: how the run is now. */
  readonly done?: (run: Run, before: Explanation | null) => string;
}

const FORCE = { force: { type: "boolean" } } as const;

const VERBS: readonly Verb[] = [
  {
    name: "pause",
    summary: "Keep a run from beginning any call until it is resumed",
    ask: (call, run) => clientOf(call).operate.pause(run),
    done: (run) =>
      `${run.id} is paused: no call of it begins until \`signalbox resume ${run.id}\`. What it is doing goes on; it is ${run.status} now.`,
  },
  {
    name: "resume",
    summary: "Lift the pause of a run",
    ask: (call, run) => clientOf(call).operate.resume(run),
    done: tellResumed,
  },
  {
    name: "retry",
    summary: "Answer the message of a run that failed or was cancelled again",
    forced: true,
    ask: async (call, run) => (await clientOf(call).operate.retry(run, { force: isSet(call, "force") })).run,
  },
  {
    name: "fail",
    summary: "End a run that is stuck, and let the next one begin",
    forced: true,
    ask: (call, run) => clientOf(call).operate.fail(run, { force: isSet(call, "force") }),
  },
  {
    name: "release",
    summary: "Take a run away from its owner, so that another one claims it",
    ask: (call, run) => clientOf(call).operate.release(run),
  },
];

function commandOf({ name, summary, forced = false, ask, done = tellState }: Verb): Command {
  return {
    name,
    summary,
    usage: `signalbox ${name} RUN${forced ? " [--force]   go against a warning" : ""}`,
    options: { ...CONNECTION_OPTIONS, ...(forced ? FORCE : {}) },
    async run(call) {
      const id = runOf(call);
      const tells = done.length > 1 && !call.terminal.json;
      // Its answer does not say what was lifted and what still stands.
      const before = tells ? await clientOf(call).operate.explain(id) : null;
      const run = await ask(call, id);
      if (call.terminal.json) call.terminal.value(run);
      else call.terminal.line(done(run, before));
      return EXIT.done;
    },
  };
}

function tellState(run: Run): string {
  return `${run.id} is ${run.reason === null ? run.status : `${run.status} (${run.reason})`}`;
}

function tellResumed(run: Run, before: Explanation | null): string {
  const stops = before?.stops ?? [];
  const isOwn = ({ kind, scope }: Explanation["stops"][number]): boolean => kind === "pause" && scope === "run";
  const left = stops.filter((stop) => !isOwn(stop));
  const did = stops.some(isOwn) ? "The pause of the run is lifted" : "No pause of this run stood; nothing was lifted";
  if (run.finishedAt !== null) return `${did}. ${tellState(run)}: it has ended.`;
  const lift = left.map(
    ({ kind, scope, id }) => ` A ${kind} of its ${scope} still stands: \`signalbox stop --lift ${id}\`.`,
  );
  return `${did}. ${tellState(run)}.${lift.join("")}`;
}

export const runVerbCommands: readonly Command[] = VERBS.map(commandOf);

export const explainCommand: Command = {
  name: "explain",
  summary: "Say why a run does not move, and what happens next",
  usage: "signalbox explain RUN",
  options: CONNECTION_OPTIONS,
  async run(call) {
    return tellExplanation(call, await clientOf(call).operate.explain(runOf(call)));
  },
};

function tellExplanation({ terminal }: CommandCall, told: Explanation): ExitCode {
  if (terminal.json) {
    terminal.value(told);
    return EXIT.done;
  }
  terminal.line(told.summary);
  terminal.line(told.next);
  const { owner } = told;
  terminal.table([
    ["state", `${told.state} since ${told.since}`],
    ["generation", `${told.generation}, attempt ${told.attempt} on ${told.runtime}`],
    ["owner", owner === null ? "nobody" : `process ${owner.process}, last heard of ${owner.leaseAgeMs} ms ago`],
    ["waits for", told.waitingFor.map((wait) => `${wait.kind} ${wait.holdId}`).join(", ") || "nothing"],
    ["open calls", told.openCalls.map((each) => `${each.kind} ${each.name}`).join(", ") || "none"],
    ["stops", told.stops.map((stop) => `${stop.kind} of its ${stop.scope} ${stop.id}`).join(", ") || "none"],
  ]);
  return EXIT.done;
}

function runOf(call: CommandCall): string {
  const [run, ...rest] = call.words;
  if (run === undefined) throw new UsageError("name a run");
  if (rest.length > 0) throw new UsageError("too many words");
  return run;
}
