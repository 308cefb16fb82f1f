import { describe, expect, it } from "vitest";
import { asPlatformError, ERROR_CODES, errorObject, isErrorCode, PlatformError, type ErrorCode } from "./errors.ts";

const codes = Object.keys(ERROR_CODES) as ErrorCode[];

describe("the table of codes", () => {
  it.each(codes)("says everything about %s", (code) => {
    const { status, title, fault, retryable } = ERROR_CODES[code];
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(600);
    expect(title).toMatch(/^[A-Z].*\.$/);
    if (fault === "caller") expect(status).toBeLessThan(500);
    // Common clients retry these by themselves; saying the opposite would be ignored by half of them.
    if (status === 429 || status === 503) expect(retryable).toBe(true);
  });

  it("knows its own codes and nothing an object brings along", () => {
    expect(isErrorCode("not_found")).toBe(true);
    for (const text of ["", "toString", "__proto__", "constructor", "NOT_FOUND"]) expect(isErrorCode(text)).toBe(false);
  });
});

describe("PlatformError", () => {
  it("says what its code says unless told otherwise", () => {
    expect(new PlatformError("not_found").message).toBe("There is no such thing.");
    expect(new PlatformError("not_found", "No agent.").detail).toBe("No agent.");
  });

  it("keeps its cause out of what is shown", () => {
    const cause = new Error("password is hunter2");
    const error = new PlatformError("internal", undefined, { cause });
    expect(error.cause).toBe(cause);
    expect(JSON.stringify(errorObject(error))).not.toContain("hunter2");
    expect(errorObject(error)).toEqual({
      code: "internal",
      detail: "Something failed inside the platform.",
      fault: "platform",
      retryable: false,
    });
  });

  it("stays itself, and anything else becomes internal with its cause", () => {
    const error = new PlatformError("queue_full");
    expect(asPlatformError(error)).toBe(error);
    expect(asPlatformError("boom")).toMatchObject({ code: "internal", cause: "boom" });
  });
});
