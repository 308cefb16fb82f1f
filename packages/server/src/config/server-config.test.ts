import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { ConfigurationError } from "./environment.ts";
import { readServerConfig } from "./server-config.ts";

describe("what a platform works with", () => {
  it("has a default for everything but models", () => {
    expect(readServerConfig({}, {})).toEqual({
      roles: ["api", "gates", "supervisor"],
      host: "127.0.0.1",
      port: 4620,
      gatesHost: "127.0.0.1",
      gatesPort: 4621,
      gatesUrl: null,
      platformUrl: null,
      dataDir: resolve(".signalbox"),
      databaseUrl: null,
      databaseDirectUrl: null,
      joinToken: null,
      secret: null,
      providers: [],
      admissionLimits: { queueCount: 20, messagesPerMinuteCount: 600, tenantRunCount: 10_000 },
      mcpServers: {},
      posture: "dev",
      retentionDays: 90,
      allowedHosts: [],
      egressAllow: { names: [], networks: [] },
      logLevel: "info",
    });
  });

  it("comes from the environment", () => {
    const config = readServerConfig(
      {},
      {
        HOST: "0.0.0.0",
        PORT: "8080",
        SIGNALBOX_GATES_HOST: "10.0.0.1",
        SIGNALBOX_GATES_PORT: "9000",
        SIGNALBOX_DATA_DIR: "/var/lib/signalbox",
        DATABASE_URL: "postgresql://pooler/signalbox",
        SIGNALBOX_DATABASE_DIRECT_URL: "postgresql://direct/signalbox",
        SIGNALBOX_JOIN_TOKEN: "a join token for workers",
        SIGNALBOX_SECRET: "the platform's own secret",
        SIGNALBOX_RETENTION_DAYS: "30",
        SIGNALBOX_EGRESS_ALLOW: "hooks.corp",
        SIGNALBOX_ALLOWED_HOSTS: "tools.example.org, Platform",
        SIGNALBOX_LOG_LEVEL: "warn",
      },
    );
    expect(config).toMatchObject({
      host: "0.0.0.0",
      port: 8080,
      gatesHost: "10.0.0.1",
      gatesPort: 9000,
      dataDir: "/var/lib/signalbox",
      databaseUrl: "postgresql://pooler/signalbox",
      databaseDirectUrl: "postgresql://direct/signalbox",
      joinToken: "a join token for workers",
      secret: "the platform's own secret",
      retentionDays: 30,
      allowedHosts: ["tools.example.org", "platform"],
      egressAllow: { names: ["hooks.corp"], networks: [] },
      logLevel: "warn",
    });
  });

  it("comes from flags first", () => {
    const environment = {
      HOST: "a",
      PORT: "1",
      SIGNALBOX_GATES_PORT: "2",
      SIGNALBOX_DATA_DIR: "b",
      SIGNALBOX_LOG_LEVEL: "info",
    };
    const flags = { host: "c", port: "3", gatesPort: "4", dataDir: "d", logLevel: "silent" };
    expect(readServerConfig(flags, environment)).toMatchObject({
      host: "c",
      port: 3,
      gatesPort: 4,
      dataDir: resolve("d"),
      logLevel: "silent",
    });
  });

  it("puts the gates beside the API, wherever that is", () => {
    expect(readServerConfig({ port: "7000" }, {})).toMatchObject({ port: 7000, gatesPort: 7001 });
    expect(readServerConfig({ port: "0" }, {})).toMatchObject({ port: 0, gatesPort: 0 });
    expect(readServerConfig({ host: "10.0.0.1" }, {}).gatesHost).toBe("10.0.0.1");
    expect(readServerConfig({}, { DATABASE_URL: "postgresql://a/b" }).databaseDirectUrl).toBe("postgresql://a/b");
  });

  it("reads secrets from files", () => {
    const folder = mkdtempSync(join(tmpdir(), "config-"));
    try {
      const file = (name: string, content: string) => {
        writeFileSync(join(folder, name), content);
        return join(folder, name);
      };
      const config = readServerConfig(
        {},
        {
          DATABASE_URL_FILE: file("database", "postgresql://a/b\n"),
          SIGNALBOX_JOIN_TOKEN_FILE: file("join", "a join token for workers"),
          SIGNALBOX_SECRET_FILE: file("secret", "the platform's own secret"),
          ANTHROPIC_API_KEY_FILE: file("anthropic", "sk-ant"),
        },
      );
      expect(config).toMatchObject({
        databaseUrl: "postgresql://a/b",
        joinToken: "a join token for workers",
        secret: "the platform's own secret",
      });
      expect(config.providers).toMatchObject([{ name: "anthropic", apiKey: "sk-ant" }]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each([
    [{ port: "http" }, {}, /PORT must be a port number/],
    [{}, { PORT: "70000" }, /PORT must be a port number/],
    [{ gatesPort: "x" }, {}, /SIGNALBOX_GATES_PORT must be a port number/],
    [{ port: "65535" }, {}, /SIGNALBOX_GATES_PORT/],
    [{ logLevel: "loud" }, {}, /log level must be one of info, warn, error, silent/],
    [{}, { SIGNALBOX_LOG_LEVEL: "debug" }, /log level must be one of/],
    [{}, { SIGNALBOX_SECRET: "hunter2" }, /^SIGNALBOX_SECRET is too short to be a secret: it needs at least 16/],
    [{}, { SIGNALBOX_JOIN_TOKEN: "hunter2" }, /^SIGNALBOX_JOIN_TOKEN is too short/],
    [{}, { SIGNALBOX_SIM_URL: "nonsense" }, /address of the provider sim is not a URL: "nonsense"/],
    [{}, { SIGNALBOX_SIM_URL: "ftp://127.0.0.1" }, /address of the provider sim/],
    [{}, { SIGNALBOX_ALLOWED_HOSTS: "https://x" }, /SIGNALBOX_ALLOWED_HOSTS names hosts without scheme/],
    [{}, { SIGNALBOX_MCP_SERVERS: "/does/not/exist.json" }, /file of tool servers .*is not there/],
  ])("with %j and %j is refused in a sentence", (flags, environment, sentence) => {
    expect(() => readServerConfig(flags, environment)).toThrow(ConfigurationError);
    expect(() => readServerConfig(flags, environment)).toThrow(sentence);
  });
});

describe("model providers", () => {
  const providers = (environment: Record<string, string>) => readServerConfig({}, environment).providers;

  it("are those that are set", () => {
    expect(
      providers({
        SIGNALBOX_SIM_URL: "http://127.0.0.1:5000/",
        ANTHROPIC_API_KEY: "sk-ant",
        OLLAMA_HOST: "127.0.0.1:11434",
      }),
    ).toEqual([
      { name: "sim", baseUrl: "http://127.0.0.1:5000", wire: "anthropic", apiKey: null, simulated: true },
      {
        name: "anthropic",
        baseUrl: "https://api.anthropic.com",
        wire: "anthropic",
        apiKey: "sk-ant",
        simulated: false,
      },
      { name: "ollama", baseUrl: "http://127.0.0.1:11434", wire: "anthropic", apiKey: null, simulated: false },
    ]);
  });

  it("may be reached another way", () => {
    expect(providers({ ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: "https://proxy.example/anthropic/" })).toMatchObject(
      [{ baseUrl: "https://proxy.example/anthropic" }],
    );
  });

  it.each([
    ["https://ollama.example", "https://ollama.example"],
    ["127.0.0.1:11434", "http://127.0.0.1:11434"],
    ["gpu-box", "http://gpu-box:11434"],
    ["gpu-box:8080", "http://gpu-box:8080"],
    ["0.0.0.0", "http://127.0.0.1:11434"],
    ["0.0.0.0:8080", "http://127.0.0.1:8080"],
    [":8080", "http://127.0.0.1:8080"],
    ["[::1]:8080", "http://[::1]:8080"],
  ])("at OLLAMA_HOST %s are called at %s", (host, baseUrl) => {
    expect(providers({ OLLAMA_HOST: host })).toMatchObject([{ name: "ollama", baseUrl }]);
  });
});
