import { ERROR_CODES, isErrorCode, type Problem } from "@signalbox/contract";
import { expect } from "vitest";
import { VERSION, type Told } from "../../setup/api-world.ts";

/** Everything that has to be true of the answer to a request that went wrong. */
export function expectProblem(told: Told<unknown>, code: string): void {
  const { status, headers } = told;
  // Whether it is one is what is looked at here.
  const body = told.body as Problem;
  expect({ code: body.code, detail: body.detail }).toEqual({ code, detail: expect.stringMatching(/./) as string });
  expect(isErrorCode(code) && ERROR_CODES[code].status).toBe(status);
  expect(headers.get("content-type")).toMatch(/^application\/problem\+json/);
  expect(body).toMatchObject({ type: `/errors/${code}`, status });
  expect(body.requestId).toMatch(/^req_[0-9a-f]{32}$/);
  expect(headers.get("signalbox-request-id")).toBe(body.requestId);
  expect(headers.get("signalbox-version")).toBe(VERSION);
  expect(body.title).not.toBe("");
}
