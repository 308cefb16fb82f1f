/** How a command finds the platform: flags, then environment, then what `signalbox dev` left in the data directory. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Signalbox } from "@signalbox/client";
import { z } from "zod";
import { ConfigurationError, secretOf, textOf } from "../config/environment.ts";
import { dataDirOf } from "../config/server-config.ts";
import { textFlag, type CommandCall } from "./command.ts";

const devFileSchema = z.object({ url: z.string(), apiKey: z.string(), pid: z.int() });
export type DevFile = z.infer<typeof devFileSchema>;

/** Written by `signalbox dev`, readable by its user alone. */
export function devFilePath(dataDir: string): string {
  return join(dataDir, "dev.json");
}

export function readDevFile(dataDir: string): DevFile | null {
  try {
    return devFileSchema.parse(JSON.parse(readFileSync(devFilePath(dataDir), "utf8")));
  } catch {
    return null;
  }
}

export interface Address {
  readonly url: string;
  readonly apiKey: string;
}

/** What is known of a platform, and where it is known from. */
export interface KnownPlatform {
  readonly url: string | null;
  readonly apiKey: string | null;
  readonly dataDir: string;
  /** What `signalbox dev` left; `null` when there is nothing. */
  readonly dev: DevFile | null;
}

export function knownPlatform(call: CommandCall): KnownPlatform {
  const dataDir = dataDirOf(textFlag(call, "data-dir"), call.environment);
  const dev = readDevFile(dataDir);
  const url = textFlag(call, "url") ?? textOf(call.environment, "SIGNALBOX_URL") ?? dev?.url ?? null;
  const apiKey = textFlag(call, "api-key") ?? secretOf(call.environment, "SIGNALBOX_API_KEY");
  // The key that was left here is the key of the platform that runs here, and is shown to no other.
  const left = dev !== null && url !== null && sameOrigin(url, dev.url) ? dev.apiKey : null;
  return { url, apiKey: apiKey ?? left, dataDir, dev };
}

/** Errors: `ConfigurationError` when no platform, or no key for it, is known. */
function addressOf(call: CommandCall): Address {
  const { url, apiKey, dataDir } = knownPlatform(call);
  if (url === null) {
    const looked = devFilePath(dataDir);
    throw new ConfigurationError(
      `No platform is known here. Start one with \`npm start\`, or set SIGNALBOX_URL and SIGNALBOX_API_KEY, or name the folder of one that runs with --data-dir (looked for ${looked}).`,
    );
  }
  if (apiKey === null) {
    throw new ConfigurationError(`No key is known for ${url}. Set SIGNALBOX_API_KEY, or give --api-key.`);
  }
  return { url, apiKey };
}

export function clientOf(call: CommandCall): Signalbox {
  const client = new Signalbox(addressOf(call));
  const user = textFlag(call, "user");
  return user === undefined ? client : client.as({ user });
}

function sameOrigin(left: string, right: string): boolean {
  const origin = URL.parse(left)?.origin;
  return origin !== undefined && origin === URL.parse(right)?.origin;
}
