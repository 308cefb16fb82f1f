/** How a command finds the platform: flags, then environment, then what `signalbox dev` left in the data directory. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Signalbox } from "@signalbox/client";
import { z } from "zod";
import { secretOf, textOf } from "../config/environment.ts";
import { textFlag, UsageError, type CommandCall } from "./command.ts";

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

export function addressOf(call: CommandCall): Address {
  const dataDir = resolve(textFlag(call, "data-dir") ?? textOf(call.environment, "SIGNALBOX_DATA_DIR") ?? ".signalbox");
  const dev = readDevFile(dataDir);
  const url = textFlag(call, "url") ?? textOf(call.environment, "SIGNALBOX_URL") ?? dev?.url;
  const apiKey = textFlag(call, "api-key") ?? secretOf(call.environment, "SIGNALBOX_API_KEY") ?? dev?.apiKey;
  if (url === undefined || apiKey === undefined) {
    throw new UsageError(
      `No platform is known here. Start one with \`npm start\`, or set SIGNALBOX_URL and SIGNALBOX_API_KEY (looked for ${devFilePath(dataDir)}).`,
    );
  }
  return { url, apiKey };
}

export function clientOf(call: CommandCall): Signalbox {
  const client = new Signalbox(addressOf(call));
  const user = textFlag(call, "user");
  return user === undefined ? client : client.as({ user });
}
