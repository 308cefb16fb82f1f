/** The compose file: its form, and that workers have no route but the gates. It is not run here. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { demandNeighbours, rolesOf } from "../../packages/server/src/config/roles.ts";

type Node = string | readonly Node[] | { readonly [key: string]: Node };

/** The part of YAML that the file keeps to: maps, lists of scalars, flow lists and `{}`. Anything else throws. */
function parseYaml(text: string): Node {
  const lines = text
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.trim().startsWith("#"))
    .map((line) => ({ indent: line.length - line.trimStart().length, text: line.trim() }));
  let at = 0;
  const block = (indent: number): Node => {
    const isList = lines[at]?.text.startsWith("- ") === true;
    const list: Node[] = [];
    const map: Record<string, Node> = {};
    for (; at < lines.length && lines[at]!.indent === indent;) {
      const line = lines[at]!.text;
      at += 1;
      if (isList) {
        if (!line.startsWith("- ")) throw new Error(`not an entry of a list: ${line}`);
        list.push(scalar(line.slice(2)));
        continue;
      }
      const [, key, rest] = /^([\w-]+):(?: (.*))?$/.exec(line) ?? [];
      if (key === undefined || key in map) throw new Error(`not a key, or twice: ${line}`);
      const next = lines[at];
      map[key] = rest === undefined && next !== undefined && next.indent > indent ? block(next.indent) : scalar(rest);
    }
    if (at < lines.length && lines[at]!.indent > indent) throw new Error(`indented too far: ${lines[at]!.text}`);
    return isList ? list : map;
  };
  const whole = block(0);
  if (at < lines.length) throw new Error(`not reached: ${lines[at]!.text}`);
  return whole;
}

function scalar(text: string | undefined): Node {
  if (text === undefined) throw new Error("a key without a value");
  if (text === "{}") return {};
  if (text.startsWith("[")) return JSON.parse(text) as Node;
  return text.replace(/^"(.*)"$/, "$1");
}

interface Service {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly networks: readonly string[];
  readonly secrets?: readonly string[];
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, { readonly internal?: string }>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

// The shape is what the test below checks.
const compose = parseYaml(
  readFileSync(new URL("../../deploy/compose.yaml", import.meta.url), "utf8"),
) as unknown as Compose;

test("workers stand on an internal network with the gates alone, and hold the join token alone", () => {
  const { worker } = compose.services;
  expect(worker?.networks).toEqual(["workers"]);
  expect(compose.networks.workers).toEqual({ internal: "true" });
  const beside = Object.entries(compose.services).filter(([, service]) => service.networks.includes("workers"));
  expect(beside.map(([name]) => name).sort()).toEqual(["gates", "worker"]);
  expect(worker?.secrets).toEqual(["join-token"]);
  expect(worker?.environment).toEqual({ SIGNALBOX_JOIN_TOKEN_FILE: "/run/secrets/join-token" });
});

test("what services name is declared, and each role has the neighbours it needs", () => {
  const roles = new Set<string>();
  for (const service of Object.values(compose.services)) {
    for (const network of service.networks) expect(Object.keys(compose.networks)).toContain(network);
    for (const secret of service.secrets ?? []) expect(Object.keys(compose.secrets)).toContain(secret);
    for (const [name, value] of Object.entries(service.environment ?? {})) {
      if (!name.endsWith("_FILE")) continue;
      expect(service.secrets).toContain(value.replace("/run/secrets/", ""));
    }
    const [verb, flag, mix] = service.command ?? [];
    if (verb !== "serve" || flag !== "--role" || mix === undefined) continue;
    const named = rolesOf(mix);
    for (const role of named) roles.add(role);
    const gatesUrl = service.environment?.SIGNALBOX_GATES_URL ?? null;
    expect(() => demandNeighbours({ roles: named, gatesUrl, platformUrl: null, joinToken: "x" })).not.toThrow();
  }
  expect([...roles].sort()).toEqual(["api", "gates", "supervisor"]);
});
