import { describe, expect, it } from "vitest";
import { databaseError, failureOf, fileError, serverError } from "./database-error.ts";

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: something`), { code });
}

describe("an error of the file system", () => {
  it.each([
    ["ENOSPC", "disk_full", "Free some space"],
    ["EDQUOT", "disk_full", "Free some space"],
    ["EACCES", "no_permission", "SIGNALBOX_DATA_DIR"],
    ["EROFS", "no_permission", "read-only"],
    ["ENAMETOOLONG", "path_too_long", "too long"],
    ["ENOTDIR", "no_permission", "in the way"],
    ["EIO", "start_failed", "could not make it."],
  ])("%s becomes %s", (code, reason, words) => {
    const error = fileError(failure(code), "make it");
    expect(failureOf(error)).toBe(reason);
    expect(error.detail).toContain("Signalbox could not make it");
    expect(error.detail).toContain(words);
    expect(error.cause).toBeInstanceOf(Error);
  });

  it("that is ours already stays as it is", () => {
    const ours = databaseError("busy", "Wait.");
    expect(fileError(ours, "make it")).toBe(ours);
  });
});

describe("what PostgreSQL prints", () => {
  it.each([
    ['FATAL:  could not write to file "pg_wal/xlogtemp.9": No space left on device', "disk_full"],
    ["initdb: error: could not look up effective user ID 4711: user does not exist", "no_permission"],
    ["FATAL:  database files are incompatible with server", "other_major_version"],
    ['LOG:  Unix-domain socket path "/x/.s.PGSQL.5432" is too long (maximum 107 bytes)', "path_too_long"],
    [
      "postgres: error while loading shared libraries: libicui18n.so.60: cannot open shared object file",
      "binaries_missing",
    ],
    ["FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use", "held_by_another_server"],
    ['FATAL:  lock file "postmaster.pid" already exists', "held_by_another_server"],
    ["FATAL:  could not map anonymous shared memory: Cannot allocate memory", "start_failed"],
    ['FATAL:  could not open file "postgresql.conf": Permission denied', "no_permission"],
    ["FATAL:  something new", "start_failed"],
  ])("%s means %s", (printed, reason) => {
    const error = serverError(`LOG:  starting\n${printed}\n`, "start the database");
    expect(failureOf(error)).toBe(reason);
    // The message never repeats its cause.
    expect(error.detail).not.toContain(printed);
    expect(error.cause).toMatchObject({ message: expect.stringContaining(printed) });
  });
});
