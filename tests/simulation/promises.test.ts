import type { Sabotage, Violation } from "@signalbox/testkit";
import { proves } from "../setup/proves.ts";
import { keeps } from "./histories.ts";

const HISTORIES_MS = 180_000;

function inEveryHistory(id: Violation["invariant"]): {
  readonly holds: (sabotage: Sabotage | null) => Promise<void>;
  readonly timeoutMs: number;
} {
  return { holds: (sabotage) => keeps(id, sabotage), timeoutMs: HISTORIES_MS };
}

proves("INV-01", {
  title: "whatever dies, a conversation has one active run",
  sabotages: ["two_active_runs"],
  ...inEveryHistory("INV-01"),
});

proves("INV-02", {
  title: "every acknowledged message ends with a reason, whatever dies and whatever is lost",
  sabotages: ["stranded_queue", "decided_in_vain", "merged_forgotten"],
  ...inEveryHistory("INV-02"),
});

proves("INV-03", {
  title: "people who ask again with the same key get the same run",
  sabotages: ["idempotency_forgotten"],
  ...inEveryHistory("INV-03"),
});

proves("INV-04", {
  title: "waiting messages begin in the order of their acknowledgement",
  sabotages: ["last_in_first_out", "interrupt_overtakes"],
  ...inEveryHistory("INV-04"),
});

proves("INV-05", {
  title: "who is no longer the owner writes nothing, and a call is closed once",
  sabotages: ["write_without_fence", "transcript_without_fence", "settle_twice"],
  ...inEveryHistory("INV-05"),
});

proves("INV-06", {
  title: "no gate authorises a call for an owner that was replaced",
  sabotages: ["intent_without_fence"],
  ...inEveryHistory("INV-06"),
});

proves("INV-07", {
  title: "what runs has an owner and a generation, and a dead owner is replaced",
  sabotages: ["running_without_owner"],
  ...inEveryHistory("INV-07"),
});

proves("INV-08", {
  title: "a run ends once, with one terminal event, and stays ended",
  sabotages: ["finish_twice", "silent_finish"],
  ...inEveryHistory("INV-08"),
});

proves("INV-09", {
  title: "sequences have no gaps and every reader ends with what the log says",
  sabotages: ["sequence_gap"],
  ...inEveryHistory("INV-09"),
});

proves("INV-11", {
  title: "what cannot be taken back takes effect at most once, also when the turn runs again",
  sabotages: ["effect_repeated"],
  ...inEveryHistory("INV-11"),
});

proves("INV-17", {
  title: "what the next turn continues from says what people see, whoever went on with a turn",
  sabotages: ["tail_not_dropped"],
  ...inEveryHistory("INV-17"),
});

proves("INV-20", {
  title: "after an acknowledged cancel no call of the run is authorised",
  sabotages: ["intent_after_cancel"],
  ...inEveryHistory("INV-20"),
});

proves("INV-25", {
  title: "when the store is not what it was, nobody and nothing from before acts in it",
  sabotages: ["era_keeps_generations", "era_keeps_processes", "era_keeps_approvals"],
  ...inEveryHistory("INV-25"),
});
