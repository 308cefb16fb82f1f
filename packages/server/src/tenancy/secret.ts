/** The platform's own secret, from which API keys are stored as HMACs and the local join token is derived. */
import { createHmac, randomBytes } from "node:crypto";
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@signalbox/contract";

const SECRET_BYTES = 32;
/** A shorter one could be guessed, and with it the keys and tokens that follow from it. */
const SECRET_CHARS_MIN = 32;
const SECRET_FILE = "secret";

/**
 * The configured secret, or the one kept in the data directory; made once, also when two processes start together.
 * A file that holds something shorter than a secret is refused: what was written with the real one would be lost.
 */
export function platformSecret(configured: string | null, dataDir: string): string {
  if (configured !== null) return configured;
  try {
    return readSecret(dataDir) ?? makeSecret(dataDir);
  } catch (thrown) {
    if (thrown instanceof PlatformError) throw thrown;
    const code = codeOf(thrown) ?? "unknown";
    const detail = `The platform's secret cannot be kept in ${dataDir} (${code}). Choose another folder with SIGNALBOX_DATA_DIR, or grant access to it.`;
    throw new PlatformError("internal", detail, { cause: thrown });
  }
}

/** A value that follows from the secret and is useless without it; `purpose` keeps uses apart. */
export function derive(secret: string, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest("base64url");
}

function readSecret(dataDir: string): string | null {
  const path = join(dataDir, SECRET_FILE);
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch (thrown) {
    if (codeOf(thrown) === "ENOENT") return null;
    throw thrown;
  }
  if (text.length >= SECRET_CHARS_MIN) return text;
  throw new PlatformError("internal", `${path} does not hold the platform's secret. Put back the file it was.`);
}

function makeSecret(dataDir: string): string {
  mkdirSync(dataDir, { recursive: true });
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  const draft = join(dataDir, `${SECRET_FILE}.${process.pid}.${randomBytes(4).toString("hex")}`);
  writeFileSync(draft, secret, { mode: 0o600 });
  chmodSync(draft, 0o600);
  try {
    // A hard link fails when another process was first; then its secret is the one.
    linkSync(draft, join(dataDir, SECRET_FILE));
  } catch (thrown) {
    if (codeOf(thrown) !== "EEXIST") throw thrown;
  } finally {
    rmSync(draft, { force: true });
  }
  return readSecret(dataDir) ?? secret;
}

function codeOf(thrown: unknown): string | null {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : null;
}
