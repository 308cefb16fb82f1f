/** Tool servers as an operator declares them: a JSON file named by `--mcp-servers` or `SIGNALBOX_MCP_SERVERS`. */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { EFFECT_CLASSES } from "@signalbox/contract";
import { z } from "zod";
import { ConfigurationError } from "./environment.ts";

/** Tools of the platform itself stand under this name. */
const OWN_SERVER = "signalbox";

const toolsSchema = z.record(
  z.string().min(1).max(128),
  z.strictObject({
    effect: z.enum(EFFECT_CLASSES),
    timeoutMs: z.int().min(100).max(3_600_000).optional(),
    /** Whether a person is asked before a call: as the policy says, always, or not because of its class. */
    approve: z.enum(["policy", "always", "never"]).default("policy"),
    /** Whether what it answers is vouched for, and no text of strangers. */
    isTrusted: z.boolean().default(false),
  }),
);

/** What clients of the gateway get of a server. */
const clientsSchema = z.enum(["none", "classified", "all"]).default("classified");

const serverSchema = z.discriminatedUnion("transport", [
  z.strictObject({
    transport: z.literal("stdio"),
    command: z.string().min(1),
    args: z.array(z.string()).default([]),
    env: z.record(z.string(), z.string()).default({}),
    /** Relative to the file; defaults to its folder. */
    cwd: z.string().optional(),
    tools: toolsSchema.default({}),
    clients: clientsSchema,
  }),
  z.strictObject({
    transport: z.literal("http"),
    url: z.url({ protocol: /^https?$/ }),
    headers: z.record(z.string(), z.string()).default({}),
    oauth: z
      .strictObject({
        tokenUrl: z.url({ protocol: /^https?$/ }),
        clientId: z.string().min(1),
        clientSecret: z.string().min(1),
        scope: z.string().optional(),
        resource: z.string().optional(),
      })
      .optional(),
    tools: toolsSchema.default({}),
    clients: clientsSchema,
  }),
]);

const mcpServersSchema = z.record(
  z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "name a server with a-z, 0-9 and -")
    .refine((name) => name !== OWN_SERVER, `${OWN_SERVER} is the platform's own`),
  serverSchema,
);

export type McpServerConfig = Readonly<z.infer<typeof serverSchema>>;
export type McpServersConfig = Readonly<Record<string, McpServerConfig>>;

export function readMcpServers(path: string | null): McpServersConfig {
  if (path === null) return {};
  const absolute = resolve(path);
  let text: string;
  try {
    text = readFileSync(absolute, "utf8");
  } catch (cause) {
    const why =
      cause instanceof Error && "code" in cause && cause.code === "ENOENT" ? "is not there" : "cannot be read";
    throw new ConfigurationError(`The file of tool servers ${absolute} ${why}.`, { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ConfigurationError(`The file of tool servers ${absolute} cannot be read as JSON.`, { cause });
  }
  if (typeof value === "object" && value !== null && "mcpServers" in value) {
    throw new ConfigurationError(
      `The file of tool servers ${absolute} has the form of a client's settings. Here the servers stand without "mcpServers" around them, each with "transport": "stdio" or "http".`,
    );
  }
  const parsed = mcpServersSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(sentenceOf).join("; ");
    throw new ConfigurationError(`The file of tool servers ${absolute} is not valid: ${problems}.`);
  }
  const servers: Record<string, McpServerConfig> = {};
  for (const [name, server] of Object.entries(parsed.data)) {
    servers[name] =
      server.transport === "stdio" ? { ...server, cwd: resolve(dirname(absolute), server.cwd ?? ".") } : server;
  }
  return servers;
}

function sentenceOf(issue: z.core.$ZodIssue): string {
  const where = issue.path.length === 0 ? "the file" : issue.path.map(String).join(".");
  const reasons = issue.code === "invalid_key" ? issue.issues.map((inner) => inner.message) : [issue.message];
  return `${where}: ${reasons.join(", ")}`;
}
