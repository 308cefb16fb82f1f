import { PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { createLog, type LogLevel } from "./log.ts";

const AT_MS = Date.UTC(2026, 2, 1, 12, 0, 0, 5);

function logging(level: LogLevel = "info", format: "json" | "text" = "json") {
  const lines: string[] = [];
  const log = createLog({ level, format, write: (line) => void lines.push(line), nowMs: () => AT_MS });
  const values = (): unknown[] => lines.map((line) => JSON.parse(line));
  return { log, lines, values };
}

describe("a line", () => {
  it("is one JSON object", () => {
    const { log, lines, values } = logging();
    log.info("started", { url: "http://127.0.0.1:4620", count: 3, none: null });
    expect(lines[0]?.endsWith("}\n")).toBe(true);
    expect(values()).toEqual([
      {
        at: "2026-03-01T12:00:00.005Z",
        level: "info",
        message: "started",
        url: "http://127.0.0.1:4620",
        count: 3,
        none: null,
      },
    ]);
  });

  it("is text where a person reads", () => {
    const { log, lines } = logging("info", "text");
    log.warn("worker lost", { worker: "w1", room: 3, runtimes: ["a", "b"] });
    expect(lines).toEqual(['12:00:00.005 warn  worker lost worker=w1 room=3 runtimes=["a","b"]\n']);
  });

  it("stays one line whatever is in it", () => {
    for (const format of ["json", "text"] as const) {
      const { log, lines } = logging("info", format);
      log.warn("two\nlines", { reason: "a\r\nb\u2028c", ["odd\nkey"]: "x" });
      log.error("three\nlines", new Error("message\nwith a break"));
      for (const line of lines) expect(line.slice(0, -1)).not.toMatch(/[\r\n]/);
    }
  });

  it("cannot be given another level, time or message by its facts", () => {
    const { log, values } = logging();
    log.info("said", { level: "error", at: "never", message: "other", error: "none" });
    expect(values()[0]).toMatchObject({ level: "info", at: "2026-03-01T12:00:00.005Z", message: "said" });
  });

  it("is written whatever it is asked to say", () => {
    const { log, values } = logging();
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    log.info("odd", { big: 1n, circle, function: () => 1, symbol: Symbol("s"), undefined });
    expect(values()).toHaveLength(1);
    expect(values()[0]).toMatchObject({ message: "odd", big: "1" });
  });

  it.each<[LogLevel, readonly string[]]>([
    ["info", ["i", "w", "e"]],
    ["warn", ["w", "e"]],
    ["error", ["e"]],
    ["silent", []],
  ])("at the level %s is written if it matters enough", (level, said) => {
    const { log, values } = logging(level);
    log.info("i");
    log.warn("w");
    log.error("e", new Error("x"));
    expect(values().map((value) => (value as { message: string }).message)).toEqual(said);
  });
});

describe("a secret", () => {
  it.each([
    "token",
    "joinToken",
    "slot_token",
    "TELEGRAM_BOT_TOKEN",
    "github_token",
    "secret",
    "clientSecret",
    "password",
    "apiKey",
    "api_key",
    "X-Api-Key",
    "ANTHROPIC_API_KEY",
    "Authorization",
    "cookie",
    "set-cookie",
    "credentials",
    "DATABASE_URL",
    "connectionString",
    "privateKey",
  ])("under the key %s is not written", (key) => {
    const { log, lines } = logging();
    log.info("said", { [key]: "hunter2", headers: { [key]: "hunter2" }, list: [{ deep: { [key]: ["hunter2"] } }] });
    expect(lines.join("")).not.toContain("hunter2");
    expect(lines.join("")).toContain("[redacted]");
  });

  it.each([
    ["Bearer abc.def.ghi", "abc.def.ghi"],
    ['curl -H "authorization: Bearer abc.def.ghi" https://x.test', "abc.def.ghi"],
    ["https://x.test/?api_key=zzz&q=1", "zzz"],
    ["postgresql://user:p%40ss@db.test:5432/x", "p%40ss"],
    ["sbx_0123456789abcdefghij is not known", "sbx_0123456789abcdefghij"],
    ["sk-ant-api03-AAAAAAAAAAAA was refused", "sk-ant-api03-AAAAAAAAAAAA"],
    ['{"apiKey":"inside-a-json-string"}', "inside-a-json-string"],
    ["Basic dXNlcjpwdw==", "dXNlcjpwdw=="],
  ])("within the text %s is not written either", (text, secret) => {
    const { log, lines } = logging();
    log.info(text, { reason: text, list: [text] });
    log.error("failed", new Error(text, { cause: new PlatformError("internal", text) }));
    expect(lines.join("")).not.toContain(secret);
  });

  it("is not seen where there is none", () => {
    const { log, values } = logging();
    const facts = {
      tokenCount: 12,
      inputTokens: 5,
      author: "bo",
      keyboard: "qwerty",
      authorization_status: "granted",
      keyId: "key_1",
      reason: "the task token was lost at 12:00, see basic docs",
      url: "http://127.0.0.1:4620/v1/info?limit=5",
    };
    log.info("said", facts);
    expect(values()[0]).toMatchObject(facts);
  });
});

describe("an error", () => {
  it("is told with its chain of causes, outermost first, and where it was thrown", () => {
    const { log, values } = logging();
    const root = new RangeError("out of range");
    const error = new PlatformError("internal", undefined, { cause: new Error("the row was odd", { cause: root }) });
    log.error("a request failed", error, { request: "req_1" });
    expect(values()[0]).toMatchObject({
      level: "error",
      message: "a request failed",
      request: "req_1",
      error: ["internal: Something failed inside the platform.", "Error: the row was odd", "RangeError: out of range"],
      stack: expect.stringContaining("log.test.ts") as string,
    });
  });

  it("of ours without a cause needs no stack", () => {
    const { log, values } = logging();
    log.error("refused", new PlatformError("queue_full"));
    expect(values()[0]).not.toHaveProperty("stack");
  });

  it("may be anything that was thrown", () => {
    const { log, values } = logging();
    for (const thrown of ["boom", 5, null, undefined, { code: "E" }, Symbol("s")]) log.error("failed", thrown);
    expect(values()).toHaveLength(6);
    expect(values()[0]).toMatchObject({ error: ["boom"] });
  });

  it("that causes itself ends", () => {
    const { log, values } = logging();
    const error = new Error("round and round");
    error.cause = error;
    log.error("failed", error);
    expect((values()[0] as { error: string[] }).error.length).toBeLessThanOrEqual(8);
  });

  it("of many tells of each", () => {
    const { log, values } = logging();
    log.error("failed", new AggregateError([new Error("one"), new Error("two")], "both"));
    expect(values()[0]).toMatchObject({ error: ["AggregateError: both", "Error: one", "Error: two"] });
  });
});
