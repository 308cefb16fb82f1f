import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ERROR_CODES, type Agent, type ErrorCode, type Problem } from "@signalbox/contract";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runSignalbox } from "../../../../tests/setup/cli-run.ts";
import { answerJson, serveHttp, type ScriptedAnswer } from "../../../../tests/setup/scripted-http.ts";
import { VERSION } from "../version.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "cli-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const COMMANDS = [
  "dev",
  "serve",
  "worker",
  "drain",
  "chat",
  "agents",
  "conversations",
  "runs",
  "events",
  "approvals",
  "webhooks",
  "keys",
  "recover",
  "doctor",
  "demo",
];

const AGENT: Agent = {
  id: "agt_1",
  name: "support",
  revision: 1,
  runtime: "langgraph",
  model: "sim/quote",
  instructions: "Help.",
  tools: [{ reference: "docs/read", effect: "read", grade: "contained" }],
  clientTools: [],
  askUser: false,
  maxOutputTokens: 8_192,
  disabled: false,
  plan: "none",
  whenBusy: "enqueue",
  warnings: [],
  createdAt: "2026-03-01T12:00:00.000Z",
};

function problem(code: ErrorCode): ScriptedAnswer {
  const { status, title, fault, retryable } = ERROR_CODES[code];
  const errors = [{ pointer: "/model", detail: "must name a provider" }];
  const document: Problem = {
    type: `/errors/${code}`,
    title,
    status,
    detail: title,
    instance: "/",
    code,
    fault,
    retryable,
    requestId: "req_1",
    errors,
  };
  return answerJson(status, document);
}

/** Words that reach this platform, and nothing else on this machine. */
function at(url: string, ...words: readonly string[]): readonly string[] {
  return [...words, "--url", url, "--api-key", "sbx_key", "--data-dir", folder];
}

describe("help", () => {
  it.each([["help"], ["--help"], ["-h"]])("is given by %s", async (word) => {
    const run = await runSignalbox([word]);
    expect([run.exitCode, run.err]).toEqual([0, ""]);
    for (const name of COMMANDS) expect(run.out).toMatch(new RegExp(`^  ${name} `, "m"));
  });

  it("is given where nothing was said, which is no success", async () => {
    const run = await runSignalbox([]);
    expect(run.exitCode).toBe(2);
    expect(run.out).toBe((await runSignalbox(["help"])).out);
  });

  it.each(COMMANDS)("is given for %s, in three ways", async (name) => {
    const run = await runSignalbox([name, "--help"]);
    expect([run.exitCode, run.err]).toEqual([0, ""]);
    expect(run.out).toContain(`signalbox ${name}`);
    expect(await runSignalbox([name, "-h"])).toEqual(run);
    expect(await runSignalbox(["help", name])).toEqual(run);
  });

  it("tells the version", async () => {
    expect(await runSignalbox(["--version"])).toEqual({ exitCode: 0, out: `${VERSION}\n`, err: "" });
  });
});

describe("words that are off", () => {
  it.each<[readonly string[], RegExp]>([
    [["frobnicate"], /there is no command "frobnicate"/],
    [["help", "frobnicate"], /there is no command "frobnicate"/],
    [["agents", "--frobnicate"], /frobnicate/],
    [["agents", "--url"], /--url/],
    [["agents", "frobnicate"], /there is no "agents frobnicate"/],
    [["agents", "list", "x"], /too many words/],
    [["agents", "show"], /name an agent/],
    [["agents", "create", "x"], /--model provider\/model/],
    [["agents", "constructor", "x"], /there is no "agents constructor"/],
    [["agents", "update", "x"], /say what changes/],
    [["agents", "update", "x", "--revision", "2"], /say what changes/],
    [["agents", "update", "x", "--model", "a/b", "--revision", "two"], /--revision takes a number/],
    [["agents", "update", "x", "--tool", "a/b", "--no-tools"], /exclude one another/],
    [["agents", "update", "x", "--when-busy", "wait"], /--when-busy takes one of enqueue/],
    [["agents", "disable", "x", "--model", "a/b"], /--model is for `agents create`/],
    [["agents", "create", "x", "--revision", "1"], /--revision is for `agents update`/],
    [["agents", "revisions"], /name an agent/],
    [["conversations", "rename", "c"], /say the new title/],
    [["conversations", "archive", "c", "d"], /too many words/],
    [["conversations", "archive", "c", "--q", "x"], /--q is for `conversations`/],
    [["conversations", "delete"], /name a conversation to delete/],
    [["conversations", "show", "c", "--message", "m"], /--message is for `conversations fork`/],
    [["conversations", "--archived", "maybe"], /--archived takes true, false or all/],
    [["agents", "--model", "x/y"], /--model is for `agents create`/],
    [["agents", "show", "x", "--limit", "5"], /--limit is for `agents`/],
    [["agents", "--limit", "0"], /--limit takes a number/],
    [["agents", "--limit", "many"], /--limit takes a number/],
    [["conversations", "show"], /name a conversation/],
    [["conversations", "show", "a", "b"], /too many words/],
    [["runs", "cancel"], /name a run/],
    [["runs", "show", "r", "--conversation", "c"], /--conversation is for `runs`/],
    [["events"], /name one conversation or run/],
    [["events", "cnv_1", "--after", "x"], /--after takes a sequence/],
    [["events", `run_${"0".repeat(32)}`, "--no-follow"], /from its first event to its last/],
    [["chat", "a", "b"], /name one agent/],
    [["chat", "a", "--conversation", "c"], /has its agent already/],
    [["chat", "--message", "  "], /nothing to say/],
    [["chat"], /nothing to say/],
    [["serve", "now"], /"now" means nothing here/],
    [["dev", "--runtime", "constructor"], /there is no runtime "constructor"/],
    [["worker"], /name the platform's gate address/],
    [["worker", "--platform", "nonsense"], /name the platform's gate address/],
    [["worker", "--platform", "http://127.0.0.1:1"], /SIGNALBOX_JOIN_TOKEN is not set/],
    [["drain"], /no platform process uses/],
    [["drain", "--pid", "1", "--all"], /either --pid or --all/],
    [["drain", "--wait", "0"], /--wait takes a number of seconds/],
    [["recover"], /--after-restore/],
    [["keys", "create"], /keys create NAME/],
    [["keys", "create", "x", "--right", "all"], /there is no right "all"/],
    [["doctor", "please"], /"please" means nothing here/],
  ])("%j are told to be, with the usage", async (words, sentence) => {
    const environment = {
      SIGNALBOX_URL: "http://127.0.0.1:1",
      SIGNALBOX_API_KEY: "sbx_key",
      SIGNALBOX_DATA_DIR: folder,
    };
    const run = await runSignalbox(words, { environment });
    expect([run.exitCode, run.out]).toEqual([2, ""]);
    expect(run.err).toMatch(sentence);
    expect(run.err).not.toMatch(/^\s+at /m);
  });

  it.each<[readonly string[], Readonly<Record<string, string>>, RegExp]>([
    [["serve"], { PORT: "http" }, /PORT must be a port number/],
    [["serve", "--role", "api,boss"], {}, /There is no role "boss"/],
    [["serve", "--role", "api,supervisor"], {}, /set SIGNALBOX_GATES_URL/],
    [["serve", "--role", "worker"], {}, /set SIGNALBOX_PLATFORM_URL/],
    [["serve", "--log-level", "loud"], {}, /log level must be one of/],
    [["worker", "--platform", "http://127.0.0.1:1", "--host", "::"], { SIGNALBOX_JOIN_TOKEN: "t" }, /needs a --port/],
    [["worker", "--platform", "http://127.0.0.1:1", "--advertise", "w"], { SIGNALBOX_JOIN_TOKEN: "t" }, /--advertise/],
    [["worker", "--platform", "http://127.0.0.1:1", "--room", "0"], { SIGNALBOX_JOIN_TOKEN: "t" }, /--room takes/],
    [
      ["worker", "--platform", "http://127.0.0.1:1", "--runtime", "toString"],
      { SIGNALBOX_JOIN_TOKEN: "t" },
      /no runtime "toString"/,
    ],
    [
      ["worker", "--platform", "http://127.0.0.1:1", "--port", "x"],
      { SIGNALBOX_JOIN_TOKEN: "t" },
      /--port must be a port/,
    ],
    [["agents"], { SIGNALBOX_API_KEY_FILE: "/does/not/exist", SIGNALBOX_URL: "http://127.0.0.1:1" }, /cannot be read/],
  ])("%j with %j are told to be off in a sentence", async (words, environment, sentence) => {
    const run = await runSignalbox(words, { environment: { SIGNALBOX_DATA_DIR: folder, ...environment } });
    expect([run.exitCode, run.out]).toEqual([2, ""]);
    expect(run.err).toMatch(sentence);
  });
});

describe("a platform that refuses", () => {
  it("is quoted with its code and the fields at fault", async () => {
    await using api = await serveHttp([problem("model_unknown")]);
    const run = await runSignalbox(at(api.url, "agents", "create", "support", "--model", "x/y"));
    expect([run.exitCode, run.out]).toEqual([1, ""]);
    expect(run.err).toBe(
      "signalbox agents: No provider is configured for this model. (model_unknown)\n  /model: must name a provider\n",
    );
  });

  it("is quoted as JSON where JSON was asked for", async () => {
    await using api = await serveHttp([problem("not_found")]);
    const run = await runSignalbox(at(api.url, "agents", "show", "x", "--json"));
    expect([run.exitCode, run.out]).toEqual([1, ""]);
    expect(JSON.parse(run.err)).toEqual({
      error: {
        code: "not_found",
        detail: "There is no such thing.",
        fields: [{ pointer: "/model", detail: "must name a provider" }],
        requestId: "req_1",
        causes: [],
      },
    });
  });

  it("by not being there is a sentence, and why", async () => {
    const gone = await serveHttp([problem("not_found")]);
    await gone[Symbol.asyncDispose]();
    const run = await runSignalbox(at(gone.url, "agents", "create", "x", "--model", "a/b"));
    expect(run.exitCode).toBe(1);
    expect(run.err).toContain(`The API at ${gone.url} cannot be reached. (unreachable)`);
  });
});

describe("where nothing is known of a platform", () => {
  it("it is said how to start one", async () => {
    const run = await runSignalbox(["agents", "--data-dir", folder]);
    expect(run.exitCode).toBe(2);
    expect(run.err).toContain("No platform is known here. Start one with `npm start`");
  });

  it("nothing is said of how the command is used", async () => {
    expect((await runSignalbox(["agents", "--data-dir", folder])).err).not.toContain("signalbox agents create");
    const wrong = await runSignalbox(["agents", "--frob"]);
    expect(wrong.err.split("\n")[0]).toBe("signalbox agents: Unknown option '--frob'");
  });

  it("but its address, it is said how to give a key", async () => {
    const run = await runSignalbox(["agents", "--data-dir", folder, "--url", "http://127.0.0.1:1"]);
    expect(run.exitCode).toBe(2);
    expect(run.err).toContain("No key is known for http://127.0.0.1:1");
  });
});

describe("a platform is found", () => {
  const page = answerJson(200, { data: [], nextCursor: null });
  const leave = (url: string) =>
    writeFileSync(join(folder, "dev.json"), JSON.stringify({ url, apiKey: "sbx_left", pid: 1 }));

  it("by what dev left", async () => {
    await using api = await serveHttp([page]);
    leave(api.url);
    expect((await runSignalbox(["agents", "--data-dir", folder])).exitCode).toBe(0);
    expect(api.asked[0]?.headers.authorization).toBe("Bearer sbx_left");
  });

  it("by the environment before that, and by flags before both", async () => {
    await using left = await serveHttp([page]);
    await using named = await serveHttp([page]);
    await using flagged = await serveHttp([page]);
    leave(left.url);
    const environment = { SIGNALBOX_URL: named.url, SIGNALBOX_API_KEY: "sbx_named", SIGNALBOX_DATA_DIR: folder };
    await runSignalbox(["agents"], { environment });
    await runSignalbox(["agents", "--url", flagged.url, "--api-key", "sbx_flagged"], { environment });
    expect(left.asked).toEqual([]);
    expect(named.asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer sbx_named"]);
    expect(flagged.asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer sbx_flagged"]);
  });

  it("and is never shown the key that was left for another", async () => {
    await using stranger = await serveHttp([page]);
    leave("http://127.0.0.1:4620");
    const run = await runSignalbox(["agents", "--data-dir", folder, "--url", stranger.url]);
    expect([run.exitCode, stranger.asked]).toEqual([2, []]);
  });

  it("by a secret in a file", async () => {
    await using api = await serveHttp([page]);
    const path = join(folder, "key");
    writeFileSync(path, "sbx_from_a_file\n");
    const environment = { SIGNALBOX_URL: api.url, SIGNALBOX_API_KEY_FILE: path, SIGNALBOX_DATA_DIR: folder };
    await runSignalbox(["agents"], { environment });
    expect(api.asked[0]?.headers.authorization).toBe("Bearer sbx_from_a_file");
  });

  it("despite a file that dev did not finish", async () => {
    writeFileSync(join(folder, "dev.json"), '{"url": "http');
    expect((await runSignalbox(["agents", "--data-dir", folder])).exitCode).toBe(2);
  });

  it("and asked as an end user", async () => {
    await using api = await serveHttp([page]);
    await runSignalbox(at(api.url, "conversations", "--user", "u_42"));
    const [payload = ""] = String(api.asked[0]?.headers["signalbox-actor"]).split(".");
    expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toMatchObject({ user: "u_42" });
  });
});

describe("a list", () => {
  const page = answerJson(200, { data: [AGENT, { ...AGENT, name: "a-longer-name" }], nextCursor: "next" });

  it("is a table, and says when there is more", async () => {
    await using api = await serveHttp([page]);
    const run = await runSignalbox(at(api.url, "agents"));
    expect(run.out.split("\n")).toEqual([
      "support        langgraph  sim/quote  docs/read",
      "a-longer-name  langgraph  sim/quote  docs/read",
      "",
    ]);
    expect(run.err).toBe("There are more: --cursor next\n");
  });

  it("is the API's page as one line of JSON", async () => {
    await using api = await serveHttp([page]);
    const run = await runSignalbox(at(api.url, "agents", "--json", "--limit", "2", "--cursor", "c"));
    expect(JSON.parse(run.out)).toMatchObject({ data: [{ name: "support" }, {}], nextCursor: "next" });
    expect([run.out.split("\n").length, run.err]).toEqual([2, ""]);
    expect(api.asked[0]?.url).toBe("/v1/agents?order=asc&limit=2&cursor=c");
  });

  it("that is empty says what to do", async () => {
    await using api = await serveHttp([answerJson(200, { data: [], nextCursor: null })]);
    expect((await runSignalbox(at(api.url, "agents"))).out).toContain("signalbox agents create");
    expect((await runSignalbox(at(api.url, "conversations"))).out).toContain("signalbox chat");
    expect((await runSignalbox(at(api.url, "runs"))).out).toContain("signalbox chat");
  });
});

describe("colours", () => {
  it("are there where a person reads, and where none wants them they are not", async () => {
    const history = { data: [], nextCursor: null };
    const one = {
      id: "msg_1",
      conversationId: "cnv_1",
      runId: null,
      role: "user",
      content: "hi",
      partial: false,
      metadata: {},
    };
    await using api = await serveHttp([
      answerJson(200, { ...history, data: [{ ...one, createdAt: "2026-03-01T12:00:00.000Z" }] }),
    ]);
    const words = at(api.url, "conversations", "show", "cnv_1");
    const ESC = String.fromCharCode(27);
    expect((await runSignalbox(words, { terminal: true })).out).toContain(`${ESC}[1muser`);
    expect((await runSignalbox(words, { terminal: true, environment: { NO_COLOR: "1" } })).out).not.toContain(ESC);
    expect((await runSignalbox(words)).out).toBe("user\nhi\n\n");
    expect((await runSignalbox([...words, "--json"], { terminal: true })).out).not.toContain(ESC);
  });
});
