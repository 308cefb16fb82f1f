/**
 * Finds the Claude Agent SDK without loading it. It is not ours to ship: the operator installs it, and everything
 * but this runtime works without it. One version is accepted, because what keeps a run inside its limits (hooks that
 * block on failure, verbatim prompts, the form of the transcript) was tried on that version alone.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { PlatformError } from "@signalbox/contract";

const SDK_PACKAGE = "@anthropic-ai/claude-agent-sdk";
const SDK_VERSION = "0.3.332";

export type Sdk = typeof import("@anthropic-ai/claude-agent-sdk");

export interface Installation {
  /** Empty when nothing was found. */
  readonly version: string;
  /** Empty when the SDK can be used; otherwise a sentence that tells the operator what to do. */
  readonly problem: string;
}

export function findInstallation(): Installation {
  const requireHere = createRequire(import.meta.url);
  const entry = resolveOrNull(requireHere, SDK_PACKAGE);
  if (entry === null) {
    return {
      version: "",
      problem: `The Claude Agent SDK is not installed. Install it beside the worker with: npm install ${SDK_PACKAGE}@${SDK_VERSION}`,
    };
  }
  const version = versionAt(dirname(entry));
  if (version !== SDK_VERSION) {
    return {
      version,
      problem: `The Claude Agent SDK ${version} is installed, but this worker needs ${SDK_VERSION}. Run: npm install ${SDK_PACKAGE}@${SDK_VERSION}`,
    };
  }
  if (!hasProgram(createRequire(entry))) {
    return {
      version,
      problem: `The Claude Agent SDK is installed without its program for ${process.platform}-${process.arch}. Run npm install ${SDK_PACKAGE}@${SDK_VERSION} without --omit=optional.`,
    };
  }
  return { version, problem: "" };
}

/** Loads the SDK. Ends with `SDK_UNAVAILABLE` when it cannot be used here. */
export async function loadSdk(): Promise<Sdk> {
  const { problem } = findInstallation();
  if (problem !== "") {
    throw new PlatformError("SDK_UNAVAILABLE", problem);
  }
  try {
    return await import("@anthropic-ai/claude-agent-sdk");
  } catch (cause) {
    throw new PlatformError("SDK_UNAVAILABLE", "The Claude Agent SDK is installed but could not be loaded.", { cause });
  }
}

function hasProgram(requireFromSdk: NodeJS.Require): boolean {
  const file = process.platform === "win32" ? "claude.exe" : "claude";
  const { platform, arch } = process;
  const builds =
    platform === "linux" ? [`linux-${arch}`, `linux-${arch}-musl`] : [`${process.platform}-${process.arch}`];
  return builds.some((build) => {
    const path = resolveOrNull(requireFromSdk, `${SDK_PACKAGE}-${build}/${file}`);
    return path !== null && existsSync(path);
  });
}

function resolveOrNull(from: NodeJS.Require, name: string): string | null {
  try {
    return from.resolve(name);
  } catch {
    return null;
  }
}

function versionAt(directory: string): string {
  const manifest: unknown = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  const version = typeof manifest === "object" && manifest !== null && "version" in manifest ? manifest.version : null;
  return typeof version === "string" ? version : "of an unknown version";
}
