/** P-1: the first token through the platform, against the bare engine on the same double in the same run. */
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { BareProcess } from "../bare/bare-process.ts";
import { bareEnvironment, openStage } from "../stage/stage.ts";
import { StreamClient } from "../stage/stream-client.ts";
import { CLAUDE_CASES, measureCold, measureWarm } from "./claude.ts";
import { LANGGRAPH_CASES, measureLanggraph } from "./langgraph.ts";

export const firstToken: Bar = {
  id: "P-1",
  title: "First token, beyond the bare engine",
  cases: [
    ...LANGGRAPH_CASES.map((name) => `P-1/langgraph/${name}`),
    ...CLAUDE_CASES.map((name) => `P-1/claude_sdk/${name}`),
  ],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  const wanted = {
    langgraph: LANGGRAPH_CASES.some((name) => options.wants(`P-1/langgraph/${name}`)),
    claude_sdk: CLAUDE_CASES.some((name) => options.wants(`P-1/claude_sdk/${name}`)),
  };
  const runtimes = (["langgraph", "claude_sdk"] as const).filter((runtime) => wanted[runtime]);
  options.say(`starting the model double, a database, the platform and ${runtimes.join(", ")}`);
  await using stage = await openStage(runtimes);
  using client = new StreamClient({ url: stage.url, apiKey: stage.apiKey });
  if (wanted.langgraph) {
    await using bare = new BareProcess("thin graph", bareEnvironment(stage));
    await using chatBare = new BareProcess("chat graph", bareEnvironment(stage));
    yield* measureLanggraph({ runtime: "langgraph", stage, client, bare, chatBare, options });
  }
  for (const [name, run] of [
    ["instant", measureWarm],
    ["cold", measureCold],
  ] as const) {
    if (!options.wants(`P-1/claude_sdk/${name}`)) continue;
    const warm = name === "instant" ? "1" : "0";
    await using bare = new BareProcess("query", { ...bareEnvironment(stage), BARE_WARM: warm });
    yield await run({ runtime: "claude_sdk", stage, client, bare, options });
  }
}
