/** Platforms with gates and an API on one database, and clients that reach their gateways with a key. */
import { createHash, randomBytes } from "node:crypto";
import { createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canonicalJson, type PolicyDocument } from "@signalbox/contract";
import pg from "pg";
import { apiKeyHmac, type Right } from "../../../packages/server/src/api/caller.ts";
import { readServerConfig } from "../../../packages/server/src/config/server-config.ts";
import type { ToolServerConfig } from "../../../packages/server/src/tool-gate/tool-server.ts";
import { startPlatform, type Platform } from "../../../packages/server/src/wiring/platform.ts";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";

const SECRET = "the secret of these platforms";

export interface GatewayWorld extends AsyncDisposable {
  readonly database: ClonedDatabase;
  readonly platforms: readonly Platform[];
  /** Of the first platform's API, without a path. */
  readonly url: string;
  key(options?: { readonly tenantId?: string; readonly rights?: readonly Right[] }): Promise<string>;
  rows<Row extends pg.QueryResultRow>(text: string, values?: unknown[]): Promise<readonly Row[]>;
}

export interface GatewayWorldOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly platformCount?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** In place from the start; the one that is shipped otherwise. */
  readonly policy?: PolicyDocument;
}

/** Of an operator who lets clients have whatever is offered to them. */
export const LETS_ALL: PolicyDocument = { version: 1, rules: [{ id: "all", verdict: "allow" }] };

export type Rows = GatewayWorld["rows"];

/** Puts a policy in place, as its desk does. */
export async function putPolicy(rows: Rows, document: PolicyDocument): Promise<void> {
  const text = canonicalJson(document);
  const hash = createHash("sha256").update(text).digest("hex");
  await rows("update signalbox.policy set active = false where active");
  await rows(
    `insert into signalbox.policy (id, tenant_id, hash, document, created_by, active, activated_at, activated_by)
     values ($1, 'default', $2, $3, '{}', true, now(), '{}')`,
    [`pol_${randomBytes(16).toString("hex")}`, hash, text],
  );
}

export async function startGatewayWorld(options: GatewayWorldOptions): Promise<GatewayWorld> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await cloneDatabase());
  const platforms: Platform[] = [];
  const rows: Rows = async <Row extends pg.QueryResultRow>(text: string, values: unknown[] = []) => {
    const client = new pg.Client(database.config);
    await client.connect();
    try {
      return (await client.query<Row>(text, values)).rows;
    } finally {
      await client.end();
    }
  };
  if (options.policy !== undefined) await putPolicy(rows, options.policy);
  for (let at = 0; at < (options.platformCount ?? 1); at += 1) {
    const folder = mkdtempSync(join(tmpdir(), "gateway-"));
    stack.defer(() => rmSync(folder, { recursive: true, force: true }));
    const environment = {
      DATABASE_URL: database.url,
      SIGNALBOX_SECRET: SECRET,
      SIGNALBOX_DATA_DIR: folder,
      SIGNALBOX_MCP_SERVERS: declaredIn(folder, options.servers),
      // What is listed first is trusted; what becomes of tools that nobody has approved is another test.
      SIGNALBOX_POSTURE: "dev",
      ...options.environment,
    };
    const config = readServerConfig({ role: "api,gates", port: "0", logLevel: "silent" }, environment);
    platforms.push(stack.use(await startPlatform(config, { log: "text" })));
  }
  const running = stack.move();
  return {
    database,
    platforms,
    url: platforms[0]?.url ?? "",
    rows,
    async key({ tenantId = "default", rights = ["tools"] } = {}) {
      const key = `sbx_${randomBytes(24).toString("base64url")}`;
      const id = `key_${randomBytes(16).toString("hex")}`;
      await rows(
        "insert into signalbox.api_key (id, tenant_id, name, prefix, hash, rights) values ($1, $2, 'test', $3, $4, $5)",
        [id, tenantId, key.slice(0, 8), apiKeyHmac(SECRET, key), rights],
      );
      return key;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

function declaredIn(folder: string, servers: GatewayWorldOptions["servers"]): string {
  const path = join(folder, "mcp-servers.json");
  writeFileSync(path, JSON.stringify(servers));
  return path;
}

export interface KeyProxy extends AsyncDisposable {
  readonly url: string;
}

/**
 * Stands before a client that cannot be given a key and adds it, and nothing else: hosts, origins and every other header
 * arrive as they were sent. With several targets each request goes to the next of them, over a connection of its own.
 */
export async function startKeyProxy(key: string, ...targets: readonly string[]): Promise<KeyProxy> {
  let next = 0;
  const server = createServer((incoming, response) => {
    const target = new URL(targets[next % targets.length] ?? "");
    next += 1;
    const path = `${target.pathname === "/" ? "" : target.pathname}${incoming.url ?? ""}`;
    const headers = { ...incoming.headers, authorization: `Bearer ${key}` };
    const { hostname: host, port } = target;
    const passed = send({ host, port, path, method: incoming.method ?? "GET", headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  // A TCP server that listens has an address of this kind.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
