/** Where a tool server is: what trust in its tools belongs to. In words without secrets, and as a hash of all of it. */
import { canonicalJson, clip, wellFormed } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";
import type { ToolServerConfig } from "./tool-server.ts";

export interface ServerOrigin {
  readonly origin: string;
  readonly originHash: string;
}

const WORDS_CHARS = 300;

/** Headers and environment may change, as tokens do; the address or the command may not. */
export function originOf(config: ToolServerConfig, digest: Digest): ServerOrigin {
  const { transport } = config;
  const whole =
    config.transport === "http"
      ? { transport, url: config.url }
      : config.transport === "stdio"
        ? { transport, command: config.command, args: config.args }
        : { transport };
  return { origin: wordsOf(config), originHash: digest.sha256Hex(canonicalJson(whole)) };
}

/** A URL without what may be a secret; of a command its name, since arguments may hold anything. */
function wordsOf(config: ToolServerConfig): string {
  if (config.transport === "stdio") return clip(wellFormed(`stdio:${config.command.split("/").at(-1)}`), WORDS_CHARS);
  if (config.transport === "functions") return "functions of the program";
  const { origin, pathname } = new URL(config.url);
  return clip(wellFormed(`${origin}${pathname}`), WORDS_CHARS);
}
