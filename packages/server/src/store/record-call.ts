/**
 * One statement of the record: values go in well-formed, refusals come out as `PlatformError`. Text with NUL or a lone
 * surrogate would fail in the database, or poison whoever reads it later; this is the last place where it can be seen.
 */
import { isErrorCode, PlatformError, wellFormed, wellFormedJson } from "@signalbox/contract";
import type { QueryResultRow } from "pg";
import { translateDatabaseError } from "./database-errors.ts";
import type { RecordStatement } from "./statements/record-statements.ts";

export type RecordValue =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly string[]
  | readonly (string | null)[]
  | readonly number[]
  | readonly Uint8Array[];

/** What both a pool and a single client of the driver can do. */
export interface Queryable {
  query<Row extends QueryResultRow>(statement: {
    readonly name: string;
    readonly text: string;
    readonly values: unknown[];
  }): Promise<{ readonly rows: Row[] }>;
}

/** The JSON text of a value, for a parameter of type json or jsonb. */
export function jsonText(value: unknown): string {
  return JSON.stringify(wellFormedJson(value));
}

export async function readRows<Row extends QueryResultRow>(
  database: Queryable,
  statement: RecordStatement,
  values: readonly RecordValue[],
): Promise<readonly Row[]> {
  try {
    return (await database.query<Row>({ ...statement, values: values.map(parameterOf) })).rows;
  } catch (thrown) {
    throw translateDatabaseError(thrown);
  }
}

/** Answers of a statement; the first that is a refusal ends the call with its code. */
export async function callRecord<T>(
  database: Queryable,
  statement: RecordStatement,
  values: readonly RecordValue[],
): Promise<readonly T[]> {
  const rows = await readRows<{ readonly answer: unknown }>(database, statement, values);
  // Every statement says in its file what it answers; the caller names that.
  return rows.map((row) => accepted(row.answer) as T);
}

/** The one answer of a statement that has exactly one. */
export async function askRecord<T>(
  database: Queryable,
  statement: RecordStatement,
  values: readonly RecordValue[],
): Promise<T> {
  const [answer] = await callRecord<T>(database, statement, values);
  if (answer === undefined) {
    throw new PlatformError("internal", undefined, { cause: new Error(`${statement.name} answered nothing`) });
  }
  return answer;
}

function accepted(answer: unknown): unknown {
  if (typeof answer !== "object" || answer === null || !("code" in answer) || typeof answer.code !== "string") {
    return answer;
  }
  if (!isErrorCode(answer.code)) {
    throw new PlatformError("internal", undefined, { cause: new Error(`the record refused with ${answer.code}`) });
  }
  // The code was seen above; the rest is what this refusal says besides.
  const {
    code: _,
    detail,
    retryAfterMs,
    ...extra
  } = answer as {
    code: string;
    detail?: unknown;
    retryAfterMs?: unknown;
  };
  throw new PlatformError(answer.code, typeof detail === "string" ? detail : undefined, {
    extra,
    ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}),
  });
}

function parameterOf(value: RecordValue): unknown {
  if (typeof value === "string") {
    return wellFormed(value);
  }
  if (value instanceof Uint8Array) {
    return bufferOf(value);
  }
  if (Array.isArray(value)) {
    return value.map((each: RecordValue) => parameterOf(each));
  }
  return value;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
