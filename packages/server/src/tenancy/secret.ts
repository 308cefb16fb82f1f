/** The platform's own secret, from which API keys are stored as HMACs and the local join token is derived. */
import { createHmac, randomBytes } from "node:crypto";
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SECRET_BYTES = 32;
const SECRET_FILE = "secret";

/** The configured secret, or the one kept in the data directory; made once, also when two processes start together. */
export function platformSecret(configured: string | null, dataDir: string): string {
  if (configured !== null) return configured;
  const path = join(dataDir, SECRET_FILE);
  const known = readIfThere(path);
  if (known !== null) return known;
  mkdirSync(dataDir, { recursive: true });
  const draft = join(dataDir, `${SECRET_FILE}.${process.pid}`);
  writeFileSync(draft, randomBytes(SECRET_BYTES).toString("base64url"), { mode: 0o600 });
  chmodSync(draft, 0o600);
  try {
    // A hard link fails when another process was first; then its secret is the one.
    linkSync(draft, path);
  } catch (thrown) {
    if (!(thrown instanceof Error && "code" in thrown && thrown.code === "EEXIST")) throw thrown;
  } finally {
    rmSync(draft, { force: true });
  }
  return readFileSync(path, "utf8").trim();
}

/** A value that follows from the secret and is useless without it; `purpose` keeps uses apart. */
export function derive(secret: string, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest("base64url");
}

function readIfThere(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
}
