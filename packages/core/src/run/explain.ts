/** Why a run does not move, as a sentence, from the facts of the record. Pure: it is never a second truth. */
import type { Explanation } from "@signalbox/contract";

/** What the record knows of the run. */
export type ExplainedFacts = Omit<Explanation, "summary" | "next">;

interface Told {
  readonly summary: string;
  readonly next: string;
}

export function explainRun(facts: ExplainedFacts): Explanation {
  return { ...facts, ...tell(facts) };
}

function tell(facts: ExplainedFacts): Told {
  switch (facts.state) {
    case "queued":
      return facts.queuePlace === null
        ? {
            summary: "Its message was taken in by the run that is active, which answers it.",
            next: "It ends together with that run.",
          }
        : {
            summary: `It waits in the queue of its conversation, behind ${counted(facts.queuePlace, "run")}.${stopped(facts)}`,
            next: "It is admitted when the runs before it have ended.",
          };
    case "admitted":
      return {
        summary: `It may begin and nobody has claimed it yet.${stopped(facts)}`,
        next: `A supervisor whose workers offer ${facts.runtime} and have room claims it; see GET /v1/runtimes.`,
      };
    case "running":
      return tellRunning(facts);
    case "suspended":
      return {
        summary: `It waits for ${waits(facts)} and needs no worker meanwhile.`,
        next: paused(facts)
          ? `It goes on when the pause is lifted and every other hold is decided.${lifting(facts)}`
          : "It goes on when its holds are decided or expire: POST /v1/holds/{hold}/decision.",
      };
    case "finalizing":
      return facts.owner?.dead === true
        ? {
            summary: "Its end is decided by a process that died.",
            next: "Another supervisor repeats the finalization.",
          }
        : {
            summary: `Its turn is over and its end is being decided.${openCalls(facts)}`,
            next: "It ends when the record has taken the finalization.",
          };
    case "completed":
    case "cancelled":
    case "failed":
    case "rolled_back":
      return { summary: `It has ended: ${facts.state}.`, next: "Nothing; an ended run stays as it is." };
  }
}

function tellRunning(facts: ExplainedFacts): Told {
  const { owner } = facts;
  if (owner === null || owner.dead) {
    return {
      summary: "The process that drove it was declared dead.",
      next: `A supervisor whose workers offer ${facts.runtime} and have room takes it over.`,
    };
  }
  if (!owner.leaseHeld || !owner.present) {
    return {
      summary: `Process ${owner.process} drives it and has not been heard of for ${owner.leaseAgeMs} ms.`,
      next: "The next sweep declares that process dead unless it comes back, and the run is taken over.",
    };
  }
  if (facts.cancelRequestedAt !== null) {
    return {
      summary: `Its end was asked for at ${facts.cancelRequestedAt}, and process ${owner.process} is ending it.${openCalls(facts)}`,
      next: "No call begins any more; the run ends when its step has stopped. If it does not, `fail` ends it at once.",
    };
  }
  if (facts.waitingFor.length > 0) {
    return {
      summary: `A call of it is kept at a gate and waits for ${waits(facts)}.`,
      next: paused(facts)
        ? `It goes on when the pause is lifted and every other hold is decided; after a while it is suspended.${lifting(facts)}`
        : "It goes on when that is decided; after a while without a decision it is suspended.",
    };
  }
  return {
    summary: `Process ${owner.process} drives it under generation ${facts.generation}.${openCalls(facts)}${stopped(facts)}`,
    next: paused(facts)
      ? `What it is doing goes on; the next call that it begins waits until the pause is lifted.${lifting(facts)}`
      : `It ends when its engine has answered. If it is stuck, ${wayOut(facts)}.`,
  };
}

/** `release` is refused while a call is open at a living gate, so it is not advised then. */
function wayOut({ openCalls: calls }: ExplainedFacts): string {
  return calls.some((call) => !call.gateDead)
    ? "`fail` ends it; `release` is refused while a call is open"
    : "`release` gives it to another owner and `fail` ends it";
}

function lifting({ runId, stops }: ExplainedFacts): string {
  const ways = stops
    .filter((stop) => stop.kind === "pause")
    .map((stop) => (stop.scope === "run" ? `\`signalbox resume ${runId}\`` : `\`signalbox stop --lift ${stop.id}\``));
  return ` To lift it: ${ways.join(", ")}.`;
}

function openCalls({ openCalls: calls }: ExplainedFacts): string {
  const first = calls[0];
  if (first === undefined) return "";
  const dead = calls.some((call) => call.gateDead) ? "; the gate of one is dead and a sweep closes it" : "";
  return ` ${counted(calls.length, "call")} without an outcome, the oldest (${first.kind} ${first.name}) since ${first.since}${dead}.`;
}

function waits({ waitingFor }: ExplainedFacts): string {
  const each = waitingFor.map(({ kind, holdId, since }) => `${kind} ${holdId} since ${since}`);
  return each.length === 0 ? "nothing that is still open" : each.join(", ");
}

function paused({ stops }: ExplainedFacts): boolean {
  return stops.some((stop) => stop.kind === "pause");
}

function stopped({ stops }: ExplainedFacts): string {
  return stops.map(({ kind, scope, id }) => ` A ${kind} of its ${scope} stands (${id}).`).join("");
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
