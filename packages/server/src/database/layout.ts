/** Where everything of the embedded database lies. Only this file knows the names. */
import { resolve, join } from "node:path";
import { databaseError } from "./database-error.ts";

export interface Layout {
  readonly dataDir: string;
  /** The cluster itself, owned by the user the server runs as. */
  readonly clusterDir: string;
  /** Unfinished clusters are `<this><id>`, siblings of the cluster so that a rename completes them. */
  readonly unfinishedPrefix: string;
  /** Lock, register of nodes, record of the server, log. */
  readonly runDir: string;
  readonly lockFile: string;
  /** Which directory the others were written in. */
  readonly placeFile: string;
  readonly nodesDir: string;
  readonly serverFile: string;
  readonly logFile: string;
  /** Copies of the binaries, made only where those of node_modules cannot be used in place. */
  readonly runtimesDir: string;
}

/** PostgreSQL's limit is 1,024 bytes with the longest name below the data directory included. */
const LONGEST_PATH_BYTES = 900;

export function layoutOf(dataDir: string): Layout {
  const root = resolve(dataDir);
  if (Buffer.byteLength(root) > LONGEST_PATH_BYTES) {
    throw databaseError(
      "path_too_long",
      `The path of the data directory has ${Buffer.byteLength(root)} bytes; PostgreSQL allows ${LONGEST_PATH_BYTES}. Set SIGNALBOX_DATA_DIR to a shorter one.`,
    );
  }
  const runDir = join(root, "postgres.run");
  return {
    dataDir: root,
    clusterDir: join(root, "postgres"),
    unfinishedPrefix: join(root, "postgres.unfinished-"),
    runDir,
    lockFile: join(runDir, "lock"),
    placeFile: join(runDir, "place"),
    nodesDir: join(runDir, "nodes"),
    serverFile: join(runDir, "server.json"),
    logFile: join(runDir, "postgres.log"),
    runtimesDir: join(root, "postgres.runtime"),
  };
}
