/**
 * Takes out of what servers say whatever opens them, and out of what they say of an error also where they stand. What a
 * tool answers may name its server's address: that is its answer.
 */
import { placesOf, type ToolServerConfig } from "../tool-server.ts";
import type { UpstreamPool } from "../upstream-pool.ts";

const SHORTEST = 6;
const SECRET_NAME = /auth|cookie|key|passw|secret|token/i;

interface Hidden {
  readonly secrets: readonly string[];
  readonly places: readonly string[];
}

export function scrubberOf(pool: Pick<UpstreamPool, "config" | "auth">): (server: string, text: string) => string {
  const hidden = new Map<string, Hidden>();
  return (server, text) => {
    const known = hidden.get(server) ?? hiddenOf(pool.config(server));
    hidden.set(server, known);
    // Tokens change, so they are looked up at each use.
    const tokens = pool.auth(server)?.secrets() ?? [];
    let scrubbed = text;
    for (const each of [...known.secrets, ...tokens, ...(isError(text) ? known.places : [])]) {
      if (scrubbed.includes(each)) scrubbed = scrubbed.replaceAll(each, `<${server}>`);
    }
    return scrubbed;
  };
}

/** A message of the protocol that carries an error, or words that are no message at all. */
function isError(text: string): boolean {
  return !text.startsWith("{") || text.includes('"error":{');
}

function hiddenOf(config: ToolServerConfig | null): Hidden {
  if (config === null || config.transport === "functions") return { secrets: [], places: [] };
  const named = Object.entries(config.transport === "http" ? config.headers : config.env).filter(([name]) =>
    SECRET_NAME.test(name),
  );
  const secrets = named.flatMap(([, value]) => [value, value.replace(/^\S+ +/, "")]);
  return { secrets: escaped(secrets), places: escaped(placesOf(config)) };
}

/** As JSON text has them. */
function escaped(texts: readonly string[]): readonly string[] {
  return texts.filter((each) => each.length >= SHORTEST).map((each) => JSON.stringify(each).slice(1, -1));
}
