/** What the doctor looks at on a running platform, through its API as anybody would. */
import { Signalbox, SignalboxError } from "@signalbox/client";
import { z } from "zod";
import type { Address } from "./connection.ts";
import { fail, ok, warn, type HealthCheck } from "./health-check.ts";

const WAIT_MS = 5_000;
const CLOCK_TOLERANCE_MS = 5_000;
const readinessSchema = z.object({ problems: z.array(z.string()) });

export async function checkPlatform(address: Address): Promise<readonly HealthCheck[]> {
  let response: Response;
  try {
    response = await fetch(new URL("/readyz", address.url), { signal: AbortSignal.timeout(WAIT_MS) });
  } catch {
    return [
      fail(
        "platform",
        `${address.url} does not answer`,
        "Start it with `npm start` or `signalbox serve`, or name another with --url.",
      ),
    ];
  }
  const { problems } = readinessSchema.parse(await response.json());
  const reached =
    problems.length === 0
      ? ok("platform", `${address.url} is ready`)
      : warn("platform", problems.join("; "), "It takes messages once this is mended.");
  return [reached, checkClock(response), ...(await checkThroughApi(address))];
}

function checkClock(response: Response): HealthCheck {
  const theirs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(theirs)) return ok("clock", "the platform tells no time");
  const apart = Math.abs(Date.now() - theirs);
  return apart <= CLOCK_TOLERANCE_MS
    ? ok("clock", "agrees with the platform's")
    : warn(
        "clock",
        `${Math.round(apart / 1_000)} s from the platform's`,
        "Nothing is decided by this clock, but times shown here will look odd.",
      );
}

async function checkThroughApi(address: Address): Promise<readonly HealthCheck[]> {
  const client = new Signalbox(address);
  try {
    const [info, runtimes] = await Promise.all([client.info(), client.runtimes()]);
    return [
      ok("key", "accepted"),
      info.providers.length === 0
        ? warn(
            "models",
            "no provider is configured",
            "Set ANTHROPIC_API_KEY, OLLAMA_HOST or SIGNALBOX_SIM_URL where the platform runs.",
          )
        : ok(
            "models",
            info.providers.map((each) => (each.simulated ? `${each.name} (simulated)` : each.name)).join(", "),
          ),
      ...(runtimes.length === 0 ? [warn("workers", "none is connected", "Start one with `signalbox worker`.")] : []),
      ...runtimes.map((runtime) =>
        runtime.available
          ? ok(`runtime ${runtime.name}`, `${runtime.version}, room for ${runtime.room} more`)
          : warn(`runtime ${runtime.name}`, runtime.problem ?? "not available", "Agents on it are refused until then."),
      ),
    ];
  } catch (thrown) {
    if (!(thrown instanceof SignalboxError)) throw thrown;
    return [fail("key", thrown.message, "Make one with `signalbox keys create NAME`, and set SIGNALBOX_API_KEY.")];
  }
}
