/** Starts the gates as a process of their own on a database of their own. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { cpuMsOf, postgresPids } from "../stage/cpu.ts";
import { MeasuredProcess } from "./measured-process.ts";

export interface ProposedCalls {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly ids: readonly string[];
}

export interface GateProcessOptions {
  readonly modelUrl: string;
  /** As `ToolCatalog` takes them. */
  readonly toolServers: Readonly<Record<string, unknown>>;
}

export interface GateProcess extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  /** Of a client that uses tools by itself. */
  readonly key: string;
  propose(calls: ProposedCalls): Promise<void>;
  /** CPU time of the gates' process so far. */
  cpuMs(): Promise<number>;
  /** CPU time of every process of the database so far. */
  databaseCpuMs(): number;
}

export async function startGateProcess(options: GateProcessOptions): Promise<GateProcess> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-gates-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  // A database server that drops root must be able to walk through.
  chmodSync(folder, 0o755);
  const database = stack.use(await openDatabase({ dataDir: join(folder, "data") }));
  const config = database.pgConfig;
  if (!("host" in config)) throw new Error("the gates are measured on the embedded database");
  const where = `host=${encodeURIComponent(config.host)}&port=${config.port}&user=${config.user}`;
  const gates = stack.use(
    await MeasuredProcess.start("./gate-main.ts", {
      BENCH_DATABASE_URL: `postgresql:///${config.database}?${where}`,
      BENCH_MODEL_URL: options.modelUrl,
      BENCH_TOOL_SERVERS: JSON.stringify(options.toolServers),
    }),
  );
  const running = stack.move();
  return {
    url: String(gates.up.url),
    token: String(gates.up.token),
    key: String(gates.up.key),
    propose: async (calls) => {
      await gates.ask({ propose: calls });
    },
    cpuMs: () => gates.cpuMs(),
    databaseCpuMs: () => cpuMsOf(postgresPids(folder)),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
