import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ERROR_CODES, type ErrorCode, type Info, type RuntimeInfo } from "@signalbox/contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runSignalbox, type CliOptions } from "../../../../../tests/setup/cli-run.ts";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../../../tests/setup/scripted-http.ts";
import { VERSION } from "../../version.ts";
import type { HealthCheck } from "../health-check.ts";

const INFO: Info = {
  name: "signalbox",
  version: VERSION,
  apiVersion: "v1",
  features: {},
  limits: {},
  providers: [
    { name: "sim", simulated: true },
    { name: "anthropic", simulated: false },
  ],
};

const LANGGRAPH: RuntimeInfo = {
  name: "langgraph",
  version: "1.0.0",
  available: true,
  problem: null,
  capabilities: [],
  workers: 1,
  room: 4,
};

function refusal(code: ErrorCode): ScriptedAnswer {
  const { status, title, fault, retryable } = ERROR_CODES[code];
  const rest = { type: "/", title, detail: title, instance: "/", requestId: "req_1", errors: [] };
  return answerJson(status, { ...rest, status, code, fault, retryable });
}

interface Platform {
  readonly readiness?: ScriptedAnswer;
  readonly info?: ScriptedAnswer;
  readonly runtimes?: readonly RuntimeInfo[];
}

/** Answers each address as a platform in this state would. */
function platform(state: Platform = {}): ScriptedAnswer {
  return async (response, request) => {
    const { readiness = answerJson(200, { status: "ready", problems: [] }), info = answerJson(200, INFO) } = state;
    const runtimes = answerJson(200, { data: state.runtimes ?? [LANGGRAPH], nextCursor: null });
    const answer = request.url === "/readyz" ? readiness : request.url === "/v1/info" ? info : runtimes;
    await answer(response, request);
  };
}

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "doctor-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface Examination {
  readonly exitCode: number;
  readonly checks: ReadonlyMap<string, HealthCheck>;
}

async function examine(url: string | null, options: CliOptions = {}): Promise<Examination> {
  const address = url === null ? [] : ["--url", url, "--api-key", "sbx_key"];
  const run = await runSignalbox(["doctor", "--json", "--data-dir", folder, ...address], options);
  const checks = JSON.parse(run.out) as readonly HealthCheck[];
  return { exitCode: run.exitCode, checks: new Map(checks.map((check) => [check.name, check])) };
}

describe("the doctor", () => {
  it("finds nothing where nothing is wrong", async () => {
    await using api = await serveHttp([platform()]);
    const { exitCode, checks } = await examine(api.url);
    expect(exitCode).toBe(0);
    expect([...checks.keys()]).toEqual([
      "node",
      "data directory",
      "database",
      "platform",
      "clock",
      "key",
      "version",
      "models",
      "runtime langgraph",
    ]);
    expect([...checks.values()].filter(({ state }) => state !== "ok")).toEqual([]);
    expect(checks.get("models")?.found).toBe("sim (simulated), anthropic");
  });

  it("says one line each, and what to do below it", async () => {
    await using api = await serveHttp([
      platform({ runtimes: [{ ...LANGGRAPH, available: false, problem: "not installed" }] }),
    ]);
    const run = await runSignalbox(["doctor", "--data-dir", folder, "--url", api.url, "--api-key", "sbx_key"]);
    expect(run.exitCode).toBe(0);
    expect(run.out).toContain(`ok    node: ${process.version}\n`);
    expect(run.out).toContain("warn  runtime langgraph: not installed\n      Agents on it are refused until then.\n");
  });

  it("knows that there may be no platform yet", async () => {
    const { exitCode, checks } = await examine(null);
    expect(exitCode).toBe(0);
    expect(checks.get("platform")).toMatchObject({ state: "warn", found: "none is known here" });
  });
});

describe("a platform", () => {
  it("that does not answer is a failure, and dev's file is named when it says so", async () => {
    const gone = await serveHttp([platform()]);
    await gone[Symbol.asyncDispose]();
    writeFileSync(join(folder, "dev.json"), JSON.stringify({ url: gone.url, apiKey: "sbx_left", pid: 4711 }));
    const { exitCode, checks } = await examine(null);
    expect(exitCode).toBe(1);
    expect(checks.get("platform")).toMatchObject({ state: "fail" });
    expect(checks.get("platform")?.found).toContain("left by process 4711");
  });

  it("that is not ready says why", async () => {
    const readiness = answerJson(503, { status: "not_ready", problems: ["no worker is connected"] });
    await using api = await serveHttp([platform({ readiness, runtimes: [] })]);
    const { exitCode, checks } = await examine(api.url);
    expect(exitCode).toBe(0);
    expect(checks.get("platform")).toMatchObject({ state: "warn", found: "no worker is connected" });
    expect(checks.get("workers")).toMatchObject({ state: "warn", found: "none is connected" });
  });

  it("that stops says so", async () => {
    await using api = await serveHttp([platform({ readiness: refusal("shutting_down") })]);
    const { exitCode, checks } = await examine(api.url);
    expect([exitCode, checks.get("platform")?.found]).toEqual([1, "The platform is shutting down."]);
  });

  it.each<[string, ScriptedAnswer]>([
    ["a page", (response) => void response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hi</h1>")],
    ["another service", answerJson(200, { ok: true })],
    ["nothing", (response) => void response.writeHead(204).end()],
  ])("is not %s", async (_what, readiness) => {
    await using api = await serveHttp([platform({ readiness })]);
    const { exitCode, checks } = await examine(api.url);
    expect(exitCode).toBe(1);
    expect(checks.get("platform")?.found).toBe(`what answers at ${api.url} is not Signalbox`);
  });

  it("at no address at all is a failure, not an accident", async () => {
    const { exitCode, checks } = await examine("nonsense");
    expect([exitCode, checks.get("platform")?.state]).toEqual([1, "fail"]);
  });

  it.each<ErrorCode>(["unauthenticated", "permission_denied"])("that answers %s needs another key", async (code) => {
    await using api = await serveHttp([platform({ info: refusal(code) })]);
    const { exitCode, checks } = await examine(api.url);
    expect(exitCode).toBe(1);
    expect(checks.get("key")).toMatchObject({ state: "fail", found: ERROR_CODES[code].title });
    expect(checks.get("key")?.advice).toContain("signalbox keys create");
  });

  it("can be looked at without a key, as far as that goes", async () => {
    await using api = await serveHttp([platform()]);
    const environment = { SIGNALBOX_URL: api.url };
    const { exitCode, checks } = await examine(null, { environment });
    expect(exitCode).toBe(0);
    expect(checks.get("platform")?.state).toBe("ok");
    expect(checks.get("key")).toMatchObject({ state: "warn", found: "none is known here" });
  });

  it("whose clock is another is mentioned", async () => {
    const readiness: ScriptedAnswer = (response) => {
      response.writeHead(200, {
        "content-type": "application/json",
        date: new Date(Date.now() - 60_000).toUTCString(),
      });
      response.end(JSON.stringify({ status: "ready", problems: [] }));
    };
    await using api = await serveHttp([platform({ readiness })]);
    const { checks } = await examine(api.url);
    expect(checks.get("clock")).toMatchObject({
      state: "warn",
      found: expect.stringMatching(/^(59|60|61) s from/) as string,
    });
  });

  it("of another release, or without a model, is mentioned", async () => {
    await using api = await serveHttp([
      platform({ info: answerJson(200, { ...INFO, version: "9.9.9", providers: [] }) }),
    ]);
    const { exitCode, checks } = await examine(api.url);
    expect(exitCode).toBe(0);
    expect(checks.get("version")).toMatchObject({
      state: "warn",
      found: `the platform is 9.9.9, this command is ${VERSION}`,
    });
    expect(checks.get("models")).toMatchObject({ state: "warn", found: "no provider is configured" });
  });
});

describe("a configuration that cannot be read", () => {
  it("is one of the things that can be wrong, and hides no other", async () => {
    await using api = await serveHttp([platform()]);
    const { exitCode, checks } = await examine(api.url, { environment: { PORT: "http" } });
    expect(exitCode).toBe(1);
    expect(checks.get("configuration")).toMatchObject({
      state: "fail",
      found: expect.stringContaining("PORT") as string,
    });
    expect(checks.get("platform")?.state).toBe("ok");
  });
});
