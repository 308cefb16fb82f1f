import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A directory of a test's own. */
export function privateDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "lifecycle-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}
