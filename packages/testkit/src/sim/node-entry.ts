/** How to run one of our own entry files with Node, from the sources as well as from the built package. */
import { extname, join } from "node:path";

const extension = extname(import.meta.filename);

/** Arguments for Node. `entry` is a path below the folder of the package, without its ending. */
export function nodeArguments(entry: string): readonly string[] {
  const file = join(import.meta.dirname, "..", `${entry}${extension}`);
  // Sources import the sources of the other packages, never their builds.
  return extension === ".ts" ? ["--conditions=@signalbox/source", file] : [file];
}
