/** A PostgreSQL somebody else runs. Checked once, when it is opened; nothing is started and nothing stopped. */
import { setTimeout as sleep } from "node:timers/promises";
import { withClient, type PgConfig } from "./connection.ts";
import { databaseError, errorCode, type DatabaseFailure } from "./database-error.ts";
import { WHICH_SERVER } from "./server-statements.ts";
import { PlatformError } from "@signalbox/contract";

const OLDEST_MAJOR = 15;
const CONNECT_TIMEOUT_MS = 10_000;
const STARTING_PATIENCE_MS = 30_000;
const ASK_AGAIN_AFTER_MS = 500;
/** SQLSTATE cannot_connect_now: it is starting, and will be there in a moment. */
const STARTING = "57P03";

export class ExternalDatabase implements AsyncDisposable {
  readonly kind = "external";
  readonly pgConfig: PgConfig;
  readonly connectionString: string;

  private constructor(url: string) {
    this.connectionString = url;
    this.pgConfig = { connectionString: url };
  }

  static async open(url: string): Promise<ExternalDatabase> {
    const where = describe(url);
    const deadlineMs = performance.now() + STARTING_PATIENCE_MS;
    for (;;) {
      try {
        await demandSuitable(url, where);
        return new ExternalDatabase(url);
      } catch (error) {
        if (errorCode(error) !== STARTING || performance.now() > deadlineMs) {
          throw translate(error, where);
        }
        await sleep(ASK_AGAIN_AFTER_MS);
      }
    }
  }

  /** Its pools belong to whoever made them; there is nothing to close here. */
  async [Symbol.asyncDispose](): Promise<void> {}
}

async function demandSuitable(url: string, where: string): Promise<void> {
  await withClient({ connectionString: url }, CONNECT_TIMEOUT_MS, async (client) => {
    const { rows } = await client.query<{ number: number; name: string; standby: boolean }>(WHICH_SERVER);
    const found = rows[0];
    if (found === undefined || Math.floor(found.number / 10_000) < OLDEST_MAJOR) {
      throw databaseError(
        "too_old",
        `DATABASE_URL leads to PostgreSQL ${found?.name ?? "of an unknown version"} (${where}); Signalbox needs ${OLDEST_MAJOR} or newer.`,
      );
    }
    if (found.standby) {
      throw databaseError(
        "read_only",
        `DATABASE_URL leads to a read-only standby (${where}); it must name the primary.`,
      );
    }
  });
}

/** Never the password, and nothing of the query string. */
function describe(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null || !/^postgres(ql)?:$/.test(parsed.protocol)) {
    if (url.startsWith("postgres://") || url.startsWith("postgresql://")) {
      return "a local socket";
    }
    throw databaseError(
      "unreachable",
      "DATABASE_URL is not an address of the form postgresql://user:password@host:5432/database.",
    );
  }
  const host = parsed.hostname === "" ? "a local socket" : parsed.host;
  return `${host}${parsed.pathname === "/" ? "" : `, database ${decodeURIComponent(parsed.pathname.slice(1))}`}`;
}

interface Refusal {
  readonly reason: DatabaseFailure;
  readonly sentence: string;
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  ECONNREFUSED: {
    reason: "unreachable",
    sentence: "Nothing listens there. Is the server running, and is the port right?",
  },
  ENOTFOUND: { reason: "unreachable", sentence: "There is no host of that name." },
  EAI_AGAIN: { reason: "unreachable", sentence: "The host's name could not be looked up." },
  EHOSTUNREACH: { reason: "unreachable", sentence: "There is no way to that host." },
  ENETUNREACH: { reason: "unreachable", sentence: "There is no way to that network." },
  ETIMEDOUT: { reason: "unreachable", sentence: "The host did not answer." },
  ECONNRESET: { reason: "unreachable", sentence: "The connection was cut while it was being made." },
  ENOENT: { reason: "unreachable", sentence: "There is no socket of that name." },
  "28P01": { reason: "no_permission", sentence: "The password is wrong." },
  "28000": { reason: "no_permission", sentence: "The server does not let that user in from here." },
  "3D000": { reason: "unreachable", sentence: "That database does not exist. Create it first." },
  "42501": { reason: "no_permission", sentence: "That user may not connect to the database." },
  "53300": { reason: "unreachable", sentence: "The server has no connection left." },
  "57P03": { reason: "unreachable", sentence: "The server is still starting." },
};

function translate(thrown: unknown, where: string): PlatformError {
  if (thrown instanceof PlatformError) {
    return thrown;
  }
  const refusal = REFUSALS[errorCode(thrown) ?? ""] ?? {
    reason: "unreachable" as const,
    sentence: "The server refused or did not answer in time.",
  };
  return databaseError(refusal.reason, `Signalbox cannot use DATABASE_URL (${where}). ${refusal.sentence}`, thrown);
}
