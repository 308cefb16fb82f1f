/** What the doctor looks at on a running platform, through its API as anybody would. */
import { Signalbox, SignalboxError } from "@signalbox/client";
import { problemSchema, type Info, type RuntimeInfo } from "@signalbox/contract";
import { z } from "zod";
import { VERSION } from "../version.ts";
import type { KnownPlatform } from "./connection.ts";
import { fail, ok, warn, type HealthCheck } from "./health-check.ts";

const WAIT_MS = 5_000;
const CLOCK_TOLERANCE_MS = 5_000;
const START = "Start it with `npm start` or `signalbox serve`, or name another with --url.";
const readinessSchema = z.object({ problems: z.array(z.string()) });

export async function checkPlatform(known: KnownPlatform): Promise<readonly HealthCheck[]> {
  const { url, apiKey } = known;
  if (url === null) {
    const advice = "Start one with `npm start`, or set SIGNALBOX_URL and SIGNALBOX_API_KEY.";
    return [warn("platform", "none is known here", advice)];
  }
  const response = await askReadiness(url);
  if (response === null) return [unreachable(known, url)];
  const reached = await checkReadiness(response, url);
  if (reached.state === "fail") return [reached];
  const checks = [reached, checkClock(response)];
  if (apiKey !== null) return [...checks, ...(await checkThroughApi({ url, apiKey }))];
  return [...checks, warn("key", "none is known here", "Set SIGNALBOX_API_KEY, or give --api-key.")];
}

async function askReadiness(url: string): Promise<Response | null> {
  try {
    return await fetch(new URL("/readyz", url), { signal: AbortSignal.timeout(WAIT_MS) });
  } catch {
    return null;
  }
}

function unreachable(known: KnownPlatform, url: string): HealthCheck {
  const { dev, dataDir } = known;
  const left = dev?.url === url ? ` (as dev.json in ${dataDir} says, left by process ${dev.pid})` : "";
  return fail("platform", `${url} does not answer${left}`, START);
}

async function checkReadiness(response: Response, url: string): Promise<HealthCheck> {
  const body = await response.json().catch(() => null);
  const readiness = readinessSchema.safeParse(body);
  if (readiness.success) {
    const { problems } = readiness.data;
    if (problems.length === 0) return ok("platform", `${url} is ready`);
    return warn("platform", problems.join("; "), "It takes messages once this is mended.");
  }
  const problem = problemSchema.safeParse(body);
  if (problem.success) return fail("platform", problem.data.detail, START);
  return fail("platform", `what answers at ${url} is not Signalbox`, "Name the platform's address with --url.");
}

function checkClock(response: Response): HealthCheck {
  const theirsMs = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(theirsMs)) return ok("clock", "the platform tells no time");
  const apartMs = Math.abs(Date.now() - theirsMs);
  if (apartMs <= CLOCK_TOLERANCE_MS) return ok("clock", "agrees with the platform's");
  const advice = "Nothing is decided by this clock, but times shown here will look odd.";
  return warn("clock", `${Math.round(apartMs / 1_000)} s from the platform's`, advice);
}

async function checkThroughApi(address: { readonly url: string; readonly apiKey: string }) {
  const client = new Signalbox({ ...address, timeoutMs: WAIT_MS });
  try {
    const [info, runtimes] = await Promise.all([client.info(), client.runtimes()]);
    return [ok("key", "accepted"), checkVersion(info), checkModels(info), ...checkRuntimes(runtimes)];
  } catch (thrown) {
    if (!(thrown instanceof SignalboxError)) throw thrown;
    const refused = thrown.status === 401 || thrown.status === 403;
    const advice = refused ? "Make one with `signalbox keys create NAME`, and set SIGNALBOX_API_KEY." : START;
    return [fail(refused ? "key" : "platform", thrown.message, advice)];
  }
}

function checkVersion(info: Info): HealthCheck {
  if (info.version === VERSION) return ok("version", VERSION);
  const advice = "Releases work side by side, but what is newer on one side is not known on the other.";
  return warn("version", `the platform is ${info.version}, this command is ${VERSION}`, advice);
}

function checkModels(info: Info): HealthCheck {
  const names = info.providers.map((each) => (each.simulated ? `${each.name} (simulated)` : each.name));
  if (names.length > 0) return ok("models", names.join(", "));
  const advice = "Set ANTHROPIC_API_KEY, OLLAMA_HOST or SIGNALBOX_SIM_URL where the platform runs.";
  return warn("models", "no provider is configured", advice);
}

function checkRuntimes(runtimes: readonly RuntimeInfo[]): readonly HealthCheck[] {
  if (runtimes.length === 0) return [warn("workers", "none is connected", "Start one with `signalbox worker`.")];
  return runtimes.map((runtime) =>
    runtime.available
      ? ok(`runtime ${runtime.name}`, `${runtime.version}, room for ${runtime.room} more`)
      : warn(`runtime ${runtime.name}`, runtime.problem ?? "not available", "Agents on it are refused until then."),
  );
}
