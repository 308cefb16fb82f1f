/**
 * What is known of an embedded store outside it: where it lies, and the newest sign of life it was seen with. A cluster
 * that is copied elsewhere lies elsewhere; one that is put back from a backup has not seen what this file has.
 */
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { layoutOf } from "./layout.ts";

const NAME = "witness.json";

export interface EmbeddedWitness {
  readonly place: string;
  readonly markMs: () => number;
  readonly remember: (markMs: number) => void;
}

export function embeddedWitness(dataDir: string): EmbeddedWitness {
  const { clusterDir, runDir } = layoutOf(dataDir);
  const { dev, ino } = statSync(clusterDir);
  const path = join(runDir, NAME);
  let known = read(path);
  return {
    place: `${hostname()} ${dev} ${ino}`,
    markMs: () => known,
    remember(markMs) {
      known = markMs;
      // Written beside and renamed, so that a crash leaves the old one or the new one.
      const draft = `${path}.${process.pid}.draft`;
      try {
        writeFileSync(draft, JSON.stringify({ markMs }), { mode: 0o600 });
        renameSync(draft, path);
      } catch {
        // A disk that is full or gone is found out by the database itself.
      }
    },
  };
}

function read(path: string): number {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    const known = typeof value === "object" && value !== null && "markMs" in value ? value.markMs : null;
    return typeof known === "number" && Number.isSafeInteger(known) ? known : 0;
  } catch {
    return 0;
  }
}
