/** What people are asked before a call is made: look, approve, reject, answer in its place, change it. */
import { HOLD_STATES, type Approval, type DecideApproval, type HoldState } from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  textFlag,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";
import type { Terminal } from "../terminal.ts";

const OWN_OPTIONS = {
  state: { type: "string" },
  digest: { type: "string" },
  reason: { type: "string" },
  arguments: { type: "string" },
  response: { type: "string" },
} as const;

type Said = Omit<DecideApproval, "digest">;

/** What a verb decides; those that are none look. */
const DECISIONS: Readonly<Record<string, (call: CommandCall) => Said>> = {
  approve: () => ({ decision: "approve" }),
  reject: (call) => {
    const reason = textFlag(call, "reason");
    return { decision: "reject", ...(reason === undefined ? {} : { reason }) };
  },
  respond: (call) => ({ decision: "respond", response: demanded(call, "response") }),
  edit: (call) => ({ decision: "edit", arguments: argumentsOf(demanded(call, "arguments")) }),
};

export const approvalsCommand: Command = {
  name: "approvals",
  summary: "See what people are asked before a call is made, and decide it",
  usage: `signalbox approvals [list] [--state ${HOLD_STATES.join("|")}] [--limit 50] [--cursor CURSOR]
signalbox approvals show APPROVAL
signalbox approvals approve APPROVAL [--digest DIGEST]      the digest of what you were shown; by default that of now
signalbox approvals reject APPROVAL [--reason TEXT]
signalbox approvals respond APPROVAL --response TEXT        what the model reads in place of a result
signalbox approvals edit APPROVAL --arguments JSON          what the tool is called with instead`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...OWN_OPTIONS },
  async run(call) {
    const [name = "list", id, ...rest] = call.words;
    if (rest.length > 0) throw new UsageError("too many words");
    if (name === "list") {
      if (id !== undefined) throw new UsageError("too many words");
      return await list(call);
    }
    if (id === undefined) throw new UsageError("name the approval");
    if (name === "show") return tell(call.terminal, await clientOf(call).approvals.get(id));
    const said = Object.hasOwn(DECISIONS, name) ? DECISIONS[name] : undefined;
    if (said === undefined) throw new UsageError(`there is no "approvals ${name}"`);
    return await decide(call, id, said(call));
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const state = stateOf(textFlag(call, "state") ?? "open");
  tellPage(call.terminal, await clientOf(call).approvals.list({ ...listFlags(call), state }), {
    none: "Nobody is asked about anything.",
    row: (approval) => [
      approval.id,
      approval.state,
      approval.name,
      JSON.stringify(approval.arguments),
      approval.runId ?? approval.gatewayCallId ?? "",
    ],
  });
  return EXIT.done;
}

async function decide(call: CommandCall, id: string, said: Said): Promise<ExitCode> {
  const { approvals } = clientOf(call);
  const digest = textFlag(call, "digest") ?? (await approvals.get(id)).digest ?? "";
  const { outcome, approval } = await approvals.decide(id, { ...said, digest });
  if (outcome === "already_decided") call.terminal.note("This was decided before; that decision stands.");
  return tell(call.terminal, approval);
}

function tell(terminal: Terminal, approval: Approval): ExitCode {
  if (terminal.json) {
    terminal.value(approval);
    return EXIT.done;
  }
  terminal.line(`${approval.title} (${approval.name}), ${approval.effect}`);
  terminal.line(`arguments  ${JSON.stringify(approval.arguments)}`);
  terminal.line(`why        ${approval.reason ?? "-"}  ${approval.rules.join(" ")}`);
  terminal.line(`state      ${approval.state}${approval.decision === null ? "" : `: ${approval.decision}`}`);
  terminal.line(`expires    ${approval.expiresAt ?? "never"}`);
  terminal.line(`digest     ${approval.digest ?? "-"}`);
  return EXIT.done;
}

function demanded(call: CommandCall, flag: "response" | "arguments"): string {
  const text = textFlag(call, flag);
  if (text === undefined) throw new UsageError(`say --${flag}`);
  return text;
}

function argumentsOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    // An object of JSON has names and values.
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new UsageError("--arguments must be a JSON object");
}

function stateOf(text: string): HoldState {
  const state = HOLD_STATES.find((each) => each === text);
  if (state === undefined) throw new UsageError(`--state must be one of ${HOLD_STATES.join(", ")}`);
  return state;
}
