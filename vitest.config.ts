import { defineConfig } from "vitest/config";

// Tests run the sources: packages resolve through the condition `@signalbox/source`, never through dist/.
const conditions = ["@signalbox/source", "module", "node", "development|production"];

const nothingLeftOpen = "./tests/setup/nothing-left-open.ts";
const preparedDatabase = "./tests/setup/prepared-database.ts";

interface Kind {
  readonly name: string;
  readonly include: readonly string[];
  readonly timeoutMs: number;
  /** True when the files of this kind clone the prepared database. */
  readonly database?: boolean;
  /** Runs once before its files. */
  readonly setup?: string;
  /** True when its files share a process: nothing in them may keep state in a module. */
  readonly shared?: boolean;
}

const kinds: readonly Kind[] = [
  {
    name: "unit",
    include: ["packages/*/src/**/*.test.ts", "tools/**/*.test.ts", "scripts/**/*.test.ts"],
    timeoutMs: 20_000,
    shared: true,
  },
  { name: "walkthrough", include: ["tests/walkthrough/**/*.test.ts"], timeoutMs: 60_000, database: true },
  { name: "simulation", include: ["tests/simulation/**/*.test.ts"], timeoutMs: 60_000 },
  { name: "property", include: ["tests/property/**/*.test.ts"], timeoutMs: 60_000 },
  { name: "conformance", include: ["tests/conformance/**/*.test.ts"], timeoutMs: 60_000, database: true },
  { name: "integration", include: ["tests/integration/**/*.test.ts"], timeoutMs: 120_000, database: true },
  {
    name: "browser",
    include: ["tests/browser/**/*.test.ts"],
    timeoutMs: 90_000,
    database: true,
    setup: "./tests/browser/find-chromium.ts",
  },
  { name: "access", include: ["tests/access/**/*.test.ts"], timeoutMs: 60_000, database: true },
  { name: "pins", include: ["tests/pins/**/*.test.ts"], timeoutMs: 30_000 },
];

/** A state that is waited for may take as long as on a machine with many times the work; the runner's own second does not do. */
const STATE_WAITED_FOR = { timeout: 15_000, interval: 25 };

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    environment: "node",
    pool: "forks",
    maxWorkers: 2,
    teardownTimeout: 20_000,
    allowOnly: false,
    passWithNoTests: false,
    setupFiles: [nothingLeftOpen],
    projects: kinds.map((kind) => ({
      test: {
        name: kind.name,
        include: [...kind.include],
        isolate: kind.shared !== true,
        expect: { poll: STATE_WAITED_FOR },
        testTimeout: kind.timeoutMs,
        hookTimeout: Math.max(kind.timeoutMs, 20_000),
        globalSetup: [
          ...(kind.database === true ? [preparedDatabase] : []),
          ...(kind.setup === undefined ? [] : [kind.setup]),
        ],
      },
    })),
  },
});
