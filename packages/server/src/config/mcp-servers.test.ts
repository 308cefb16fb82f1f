import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfigurationError } from "./environment.ts";
import { readMcpServers } from "./mcp-servers.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "mcp-"));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

function file(content: unknown): string {
  const path = join(folder, "mcp-servers.json");
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

describe("the file of tool servers", () => {
  it("may be left out", () => {
    expect(readMcpServers(null)).toEqual({});
    expect(readMcpServers(file({}))).toEqual({});
  });

  it("names servers and how they are reached, with defaults for the rest", () => {
    const servers = readMcpServers(
      file({
        files: {
          transport: "stdio",
          command: "node",
          cwd: "docs",
          tools: { read: { effect: "read", timeoutMs: 500 } },
        },
        web: { transport: "http", url: "https://tools.example/mcp", headers: { authorization: "Bearer x" } },
      }),
    );
    expect(servers).toEqual({
      files: {
        transport: "stdio",
        command: "node",
        args: [],
        env: {},
        cwd: join(folder, "docs"),
        tools: { read: { effect: "read", approve: "policy", isTrusted: false, timeoutMs: 500 } },
        clients: "classified",
      },
      web: {
        transport: "http",
        url: "https://tools.example/mcp",
        headers: { authorization: "Bearer x" },
        tools: {},
        clients: "classified",
      },
    });
  });

  it("may have a token of the platform's own, and say what clients of the gateway get", () => {
    const oauth = {
      tokenUrl: "https://issuer.example/token",
      clientId: "signalbox",
      clientSecret: "s",
      scope: "tools",
    };
    const web = { transport: "http", url: "https://tools.example/mcp", oauth, clients: "none" };
    expect(readMcpServers(file({ web })).web).toMatchObject({ oauth, clients: "none" });
  });

  it("starts a server in its own folder unless told otherwise", () => {
    const servers = readMcpServers(file({ files: { transport: "stdio", command: "node" } }));
    expect(servers.files).toMatchObject({ cwd: folder });
  });

  it.each<[string, unknown, RegExp]>([
    ["is not JSON", "{nope", /cannot be read as JSON/],
    ["is a list", [], /is not valid/],
    ["is a client's settings", { mcpServers: { files: { command: "x" } } }, /without "mcpServers" around them/],
    [
      "names a server like nobody may be named",
      { "My Server": { transport: "stdio", command: "x" } },
      /a-z, 0-9 and -/,
    ],
    ["names no transport", { files: { command: "x" } }, /transport/],
    ["names a transport of the future", { files: { transport: "smoke" } }, /transport/],
    ["names no command", { files: { transport: "stdio" } }, /command/],
    ["has a field that does not exist", { files: { transport: "stdio", command: "x", shell: true } }, /shell/],
    ["has a URL that is none", { web: { transport: "http", url: "nonsense" } }, /url/],
    ["has a URL that leads to a file", { web: { transport: "http", url: "file:///etc/passwd" } }, /url/],
    [
      "names an effect that does not exist",
      { f: { transport: "stdio", command: "x", tools: { t: { effect: "big" } } } },
      /effect/,
    ],
    [
      "is in no hurry at all",
      { f: { transport: "stdio", command: "x", tools: { t: { effect: "read", timeoutMs: 1 } } } },
      /timeoutMs/,
    ],
  ])("that %s is refused in a sentence that names it", (_what, content, sentence) => {
    const path = file(content);
    expect(() => readMcpServers(path)).toThrow(ConfigurationError);
    expect(() => readMcpServers(path)).toThrow(sentence);
    expect(() => readMcpServers(path)).toThrow(path);
  });
});
