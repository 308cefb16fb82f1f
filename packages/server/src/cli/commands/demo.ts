/** Shows a promise being kept while processes die, and the check failing when the promise is taken away. */
import { EXIT, textFlag, UsageError, type Command } from "../command.ts";

const DEMOS = ["crash", "zombie", "approval"] as const;
const BREAKABLE: Readonly<Record<(typeof DEMOS)[number], readonly string[]>> = {
  crash: [],
  zombie: ["INV-06"],
  approval: ["INV-12"],
};

export const demoCommand: Command = {
  name: "demo",
  summary: "Kill or freeze real processes and see whether what was promised holds",
  usage: `signalbox demo ${DEMOS.join(" | ")} [--break INV-06] [--json]

crash    kills the worker, then the platform, while an answer streams
zombie   freezes a worker until another one owns its conversation, and lets it go on
approval restarts everything while a person is asked about a payment, and approves it
--break  takes the promise away first (zombie: INV-06, approval: INV-12); the table must show it

Everything runs in a temporary folder with a database of its own. Ends with 0 when every promise held, else with 1.`,
  options: { break: { type: "string" }, json: { type: "boolean" } },
  async run(call) {
    const [word, ...rest] = call.words;
    const demo = DEMOS.find((each) => each === word);
    if (demo === undefined || rest.length > 0) throw new UsageError(`say which: demo ${DEMOS.join(" | ")}`);
    const broken = textFlag(call, "break");
    if (broken !== undefined && !BREAKABLE[demo].includes(broken)) {
      const known = BREAKABLE[demo].join(", ");
      throw new UsageError(`demo ${demo} can break ${known === "" ? "nothing" : known}, not "${broken}"`);
    }
    const { environment, terminal } = call;
    const options = { environment, note: (text: string) => terminal.note(text) };
    const { showFindings } = await import("../demo/promise-table.ts");
    if (demo === "crash") {
      const { demonstrateCrash } = await import("../demo/crash.ts");
      return showFindings(terminal, await demonstrateCrash(options)) ? EXIT.done : EXIT.failed;
    }
    if (demo === "approval") {
      const { demonstrateApproval } = await import("../demo/approval.ts");
      const findings = await demonstrateApproval({ ...options, broken: broken !== undefined });
      return showFindings(terminal, findings) ? EXIT.done : EXIT.failed;
    }
    const { demonstrateZombie } = await import("../demo/zombie.ts");
    const findings = await demonstrateZombie({ ...options, broken: broken !== undefined });
    return showFindings(terminal, findings) ? EXIT.done : EXIT.failed;
  },
};
