import { ERROR_CODES, PlatformError, problemSchema, type ErrorCode } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { fromBodyIssues, fromQueryIssues, fromThrown, problemHeaders, problemOf } from "./problem.ts";

const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const REQUEST = { id: "req_1", url: "/v1/agents?limit=5" };

describe("a problem document", () => {
  it.each(CODES)("of %s has the form the contract promises", (code) => {
    const problem = problemOf(new PlatformError(code), REQUEST);
    expect(problemSchema.strict().parse(problem)).toEqual(problem);
    expect(problem).toMatchObject({ type: `/errors/${code}`, instance: "/v1/agents", requestId: "req_1", errors: [] });
  });

  it("carries what the error brings, which can change nothing of what the code says", () => {
    const extra = { activeRunId: "run_1", status: 200, code: "fine", detail: "all good" };
    const problem = problemOf(new PlatformError("conversation_busy", "Wait.", { extra }), REQUEST);
    expect(problem).toMatchObject({ activeRunId: "run_1", status: 409, code: "conversation_busy", detail: "Wait." });
  });

  it("never shows a cause", () => {
    const cause = new Error("password is hunter2", { cause: new Error("at 10.0.0.7") });
    expect(JSON.stringify(problemOf(fromThrown(cause), REQUEST))).not.toMatch(/hunter2|10\.0\.0\.7/);
  });

  it("is well-formed and of bounded size, whatever it quotes", () => {
    const fields = Array.from({ length: 99 }, () => ({
      pointer: "/\ud83d".repeat(500),
      detail: "\u0000".repeat(9_000),
    }));
    const text = JSON.stringify(problemOf(new PlatformError("invalid_request", "\ud83d", { fields }), REQUEST));
    expect(text.length).toBeLessThan(100_000);
    expect(text).not.toMatch(/\\ud83d|\\u0000/);
  });
});

describe("its headers", () => {
  it.each<[ErrorCode, number | undefined, string | undefined]>([
    ["queue_full", undefined, "1"],
    ["queue_full", 2_100, "3"],
    ["shutting_down", undefined, "1"],
    ["database_unavailable", 0, "1"],
    ["not_found", undefined, undefined],
    ["conversation_busy", undefined, undefined],
  ])("for %s with %s ms say to wait %s s", (code, retryAfterMs, seconds) => {
    const error = new PlatformError(code, undefined, retryAfterMs === undefined ? {} : { retryAfterMs });
    expect(problemHeaders(error)["retry-after"]).toBe(seconds);
  });

  it("say what else there is to say", () => {
    expect(problemHeaders(new PlatformError("unauthenticated"))["www-authenticate"]).toBe('Bearer realm="signalbox"');
    const error = new PlatformError("method_not_allowed", undefined, { extra: { allow: "GET, HEAD" } });
    expect(problemHeaders(error)).toEqual({ allow: "GET, HEAD" });
  });
});

describe("whether common clients should send again by themselves", () => {
  const conflicts = CODES.filter((code) => ERROR_CODES[code].status === 409);

  it.each(conflicts)("is denied for %s", (code) => {
    expect(["caller", "policy"]).toContain(ERROR_CODES[code].fault);
    expect(problemHeaders(new PlatformError(code))["x-should-retry"]).toBe("false");
  });

  it("is left to them for everything else, and there are such conflicts", () => {
    expect(conflicts).toEqual(expect.arrayContaining(["conversation_busy", "hold_closed", "command_refused"]));
    for (const code of CODES.filter((each) => !conflicts.includes(each))) {
      expect([code, problemHeaders(new PlatformError(code))["x-should-retry"]]).toEqual([code, undefined]);
    }
  });
});

describe("what is thrown", () => {
  it.each([
    ["FST_ERR_CTP_BODY_TOO_LARGE", "payload_too_large"],
    ["FST_ERR_CTP_INVALID_MEDIA_TYPE", "unsupported_media_type"],
    ["FST_ERR_CTP_INVALID_CONTENT_LENGTH", "invalid_request"],
    ["ECONNRESET", "invalid_request"],
    ["FST_ERR_BAD_URL", "invalid_request"],
    ["FST_ERR_MAX_PARAM_LENGTH", "not_found"],
    ["FST_ERR_OF_THE_FUTURE", "internal"],
  ])("%s by the server becomes %s and keeps its cause", (code, ours) => {
    const thrown = Object.assign(new Error("something"), { code });
    expect(fromThrown(thrown)).toMatchObject({ code: ours, cause: thrown });
  });

  it("is ours already, or nobody's", () => {
    const error = new PlatformError("not_found");
    expect(fromThrown(error)).toBe(error);
    for (const thrown of ["boom", null, undefined, 5, { code: "FST_ERR_BAD_URL" }]) {
      expect(fromThrown(thrown).code).toBe("internal");
    }
  });
});

describe("what a schema refuses", () => {
  const schema = z.strictObject({ name: z.string(), deep: z.array(z.strictObject({ "a/b": z.int() })) });
  const issues = (value: unknown) => {
    const { error } = schema.safeParse(value);
    return error ?? expect.unreachable();
  };

  it("in a body is named by JSON pointers", () => {
    const error = fromBodyIssues(issues({ name: 5, deep: [{ "a/b": 1 }, { "a/b": "x" }] }));
    expect(error.code).toBe("invalid_request");
    expect(error.fields.map(({ pointer }) => pointer)).toEqual(["/name", "/deep/1/a~1b"]);
  });

  it("because it is missing is told so, whatever the parser says of it", () => {
    const either = z.strictObject({ text: z.string(), content: z.union([z.string(), z.array(z.string())]) });
    const { error } = either.safeParse({});
    const details = fromBodyIssues(error ?? expect.unreachable()).fields.map(({ detail }) => detail);
    expect(details).toEqual(["is missing", "is missing"]);
    const wrong = either.safeParse({ text: 5, content: 5 }).error ?? expect.unreachable();
    expect(fromBodyIssues(wrong).fields.map(({ detail }) => detail)).not.toContain("is missing");
  });

  it("in a query is named by parameters", () => {
    expect(fromQueryIssues(issues({ name: 5, deep: [] })).fields[0]?.pointer).toBe("name");
  });

  it("as unknown comes first and decides the code", () => {
    const error = fromBodyIssues(issues({ name: 5, deep: [{ "a/b": 1, "x~y": 1 }], more: 1 }));
    expect(error.code).toBe("field_unknown");
    expect(error.fields.map(({ pointer }) => pointer)).toEqual(["/deep/0/x~0y", "/more", "/name"]);
    // What is there and wrong, or missing, is no field that does not exist.
    expect(error.detail).toBe("The request has a field that does not exist: /deep/0/x~0y, /more.");
  });

  it("as a whole is called the body", () => {
    expect(fromBodyIssues(issues("text")).detail).toBe("The request is not valid at the body.");
  });
});
