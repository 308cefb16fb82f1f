import {
  WEBHOOK_EVENTS,
  DELIVERY_STATES,
  type Delivery,
  type DeliveryAttempt,
  type DeliveryDetail,
  type Webhook,
  type WebhookEvent,
} from "@signalbox/contract";
import {
  CONNECTION_OPTIONS,
  EXIT,
  LIST_OPTIONS,
  listFlags,
  refuseFlags,
  textFlag,
  textFlags,
  UsageError,
  type Command,
  type CommandCall,
  type ExitCode,
} from "../command.ts";
import { clientOf } from "../connection.ts";
import { tellPage } from "../page.ts";
import type { Terminal } from "../terminal.ts";

const OWN_OPTIONS = {
  event: { type: "string", multiple: true },
  description: { type: "string" },
  state: { type: "string" },
  "grace-seconds": { type: "string" },
} as const;

interface Verb {
  /** How many words it takes, beside itself. */
  readonly words: number;
  readonly flags: readonly string[];
  readonly run: (call: CommandCall, words: readonly string[]) => Promise<ExitCode>;
}

const LIST_FLAGS = Object.keys(LIST_OPTIONS);

const VERBS: Readonly<Record<string, Verb>> = {
  list: { words: 0, flags: LIST_FLAGS, run: list },
  create: { words: 1, flags: ["event", "description"], run: create },
  show: { words: 1, flags: [], run: async (call, [id = ""]) => show(call, await clientOf(call).webhooks.get(id)) },
  enable: { words: 1, flags: [], run: (call, [id = ""]) => turn(call, id, false) },
  disable: { words: 1, flags: [], run: (call, [id = ""]) => turn(call, id, true) },
  rotate: { words: 1, flags: ["grace-seconds"], run: rotate },
  delete: { words: 1, flags: [], run: remove },
  test: { words: 1, flags: [], run: async (call, [id = ""]) => tell(call, await clientOf(call).webhooks.test(id)) },
  deliveries: { words: 1, flags: [...LIST_FLAGS, "state"], run: deliveries },
  delivery: {
    words: 2,
    flags: [],
    run: async (call, [id = "", delivery = ""]) => tell(call, await clientOf(call).webhooks.delivery(id, delivery)),
  },
  redeliver: {
    words: 2,
    flags: [],
    run: async (call, [id = "", delivery = ""]) => tell(call, await clientOf(call).webhooks.redeliver(id, delivery)),
  },
};

/** Which command a flag is for, where it means nothing to the one that was asked. */
const OWNERS = {
  limit: "deliveries",
  cursor: "deliveries",
  state: "deliveries",
  event: "create",
  description: "create",
  "grace-seconds": "rotate",
} as const satisfies Record<keyof typeof LIST_OPTIONS | keyof typeof OWN_OPTIONS, string>;

export const webhooksCommand: Command = {
  name: "webhooks",
  summary: "Have your own systems told what happens, and see what they were told",
  usage: `signalbox webhooks [list] [--limit 50] [--cursor CURSOR]
signalbox webhooks create URL [--event run.finished …] [--description TEXT]   the secret is shown this once
signalbox webhooks show|enable|disable|delete WEBHOOK
signalbox webhooks rotate WEBHOOK [--grace-seconds 86400]
signalbox webhooks test WEBHOOK
signalbox webhooks deliveries WEBHOOK [--state ${DELIVERY_STATES.join("|")}] [--limit 50] [--cursor CURSOR]
signalbox webhooks delivery|redeliver WEBHOOK DELIVERY

Events are ${WEBHOOK_EVENTS.join(", ")}; a webhook gets all of them where none is named.`,
  options: { ...CONNECTION_OPTIONS, ...LIST_OPTIONS, ...OWN_OPTIONS },
  async run(call) {
    const [name = "list", ...words] = call.words;
    const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
    if (verb === undefined) throw new UsageError(`there is no "webhooks ${name}"`);
    if (words.length > verb.words) throw new UsageError("too many words");
    if (words.length < verb.words) throw new UsageError("too few words");
    for (const [flag, owner] of Object.entries(OWNERS)) {
      if (!verb.flags.includes(flag)) refuseFlags(call, [flag], `webhooks ${owner}`);
    }
    return await verb.run(call, words);
  },
};

async function list(call: CommandCall): Promise<ExitCode> {
  const { terminal } = call;
  tellPage(terminal, await clientOf(call).webhooks.list(listFlags(call)), {
    none: "No webhooks.",
    row: (webhook) => [webhook.id, stateOf(terminal, webhook), webhook.url, webhook.events.join(" ")],
  });
  return EXIT.done;
}

async function create(call: CommandCall, [url = ""]: readonly string[]): Promise<ExitCode> {
  const { terminal } = call;
  const description = textFlag(call, "description");
  const events = textFlags(call, "event")?.map(eventOf) ?? [...WEBHOOK_EVENTS];
  const webhook = await clientOf(call).webhooks.create({
    url,
    events,
    ...(description === undefined ? {} : { description }),
  });
  if (terminal.json) terminal.value(webhook);
  else {
    terminal.note(`${webhook.id} is told ${webhook.events.join(", ")}. Its secret is shown this once:`);
    terminal.line(webhook.secret ?? "");
  }
  return EXIT.done;
}

async function rotate(call: CommandCall, [id = ""]: readonly string[]): Promise<ExitCode> {
  const { terminal } = call;
  const text = textFlag(call, "grace-seconds");
  if (text !== undefined && !/^[0-9]{1,6}$/.test(text)) throw new UsageError("--grace-seconds takes a number");
  const grace = text === undefined ? {} : { graceSeconds: Number(text) };
  const webhook = await clientOf(call).webhooks.rotate(id, grace);
  if (terminal.json) terminal.value(webhook);
  else {
    const until = webhook.previousSecretUntil;
    terminal.note(until === null ? "The old secret signs no more." : `The old secret signs as well until ${until}.`);
    terminal.line(webhook.secret ?? "");
  }
  return EXIT.done;
}

async function turn(call: CommandCall, id: string, disabled: boolean): Promise<ExitCode> {
  return show(call, await clientOf(call).webhooks.update(id, { disabled }));
}

async function remove(call: CommandCall, [id = ""]: readonly string[]): Promise<ExitCode> {
  await clientOf(call).webhooks.delete(id);
  if (call.terminal.json) call.terminal.value({ id, deleted: true });
  else call.terminal.line(`${id} is gone.`);
  return EXIT.done;
}

async function deliveries(call: CommandCall, [id = ""]: readonly string[]): Promise<ExitCode> {
  const text = textFlag(call, "state");
  const state = DELIVERY_STATES.find((each) => each === text);
  if (text !== undefined && state === undefined) {
    throw new UsageError(`--state is one of ${DELIVERY_STATES.join(", ")}`);
  }
  const filter = { ...listFlags(call), ...(state === undefined ? {} : { state }) };
  tellPage(call.terminal, await clientOf(call).webhooks.deliveries(id, filter), {
    none: "Nothing was to be told.",
    row: (delivery) => [
      delivery.id,
      delivery.type,
      delivery.state,
      `${delivery.attemptCount} attempts`,
      lastOf(delivery),
      delivery.createdAt,
    ],
  });
  return EXIT.done;
}

function show({ terminal }: CommandCall, webhook: Webhook): ExitCode {
  if (terminal.json) {
    terminal.value(webhook);
    return EXIT.done;
  }
  terminal.table([
    ["webhook", webhook.id],
    ["url", webhook.url],
    ["events", webhook.events.join(" ")],
    ["description", terminal.plain(webhook.description)],
    ["state", stateOf(terminal, webhook)],
    ["failing since", webhook.failingSince ?? "not"],
    ["created", webhook.createdAt],
  ]);
  return EXIT.done;
}

function tell({ terminal }: CommandCall, delivery: DeliveryDetail): ExitCode {
  if (terminal.json) {
    terminal.value(delivery);
    return EXIT.done;
  }
  terminal.table([
    ["delivery", delivery.id],
    ["type", delivery.type],
    ["state", delivery.state],
    ["next attempt", delivery.nextAttemptAt ?? "none"],
    ...delivery.attempts.map((attempt) => [`attempt ${attempt.number}`, `${attempt.at} ${outcomeOf(attempt)}`]),
  ]);
  terminal.line(terminal.plain(delivery.payload));
  return EXIT.done;
}

function stateOf(terminal: Terminal, { state, disabledCause }: Webhook): string {
  const text = disabledCause === null ? state : `${state} (${disabledCause})`;
  return terminal.style(state === "active" ? "green" : "yellow", text);
}

function lastOf({ lastAttempt }: Delivery): string {
  return lastAttempt === null ? "" : outcomeOf(lastAttempt);
}

function outcomeOf({ status, errorCode }: DeliveryAttempt): string {
  return [status, errorCode].filter((part) => part !== null).join(" ") || "no outcome known";
}

function eventOf(text: string): WebhookEvent {
  const event = WEBHOOK_EVENTS.find((each) => each === text);
  if (event === undefined) throw new UsageError(`there is no event "${text}"; events are ${WEBHOOK_EVENTS.join(", ")}`);
  return event;
}
