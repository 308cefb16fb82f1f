import { ERROR_CODES, type Info, type Problem } from "@signalbox/contract";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, VERSION, type Asked, type Told } from "../../setup/api-world.ts";
import { expectProblem } from "./problems.ts";

interface OpenApi {
  readonly paths: Readonly<Record<string, { readonly get?: { readonly parameters?: readonly Parameter[] } }>>;
}
interface Parameter {
  readonly in: string;
  readonly name: string;
}

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function refused(path: string, code: string, asked: Asked = {}): Promise<Told<Problem>> {
  const told = await world.refused(path, { key, ...asked });
  expectProblem(told, code);
  return told;
}

describe("addresses", () => {
  it.each([
    "/v1",
    "/v1/",
    "/v1/agents/",
    "/v1/agents/support/",
    "//v1/agents",
    "/v1//agents",
    "/v1/Agents",
    "/v2/agents",
    "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/",
    "/healthz/",
    "/favicon.ico",
  ])("%s is none", async (path) => {
    await refused(path, "not_found");
    await refused(path, "not_found", { body: "not even json", headers: { "content-type": "text/plain" } });
  });

  it.each([
    ["DELETE", "/v1/agents", "GET, HEAD, POST"],
    ["PUT", "/v1/agents/support", "GET, HEAD, PATCH"],
    ["POST", "/", "GET, HEAD"],
    ["POST", "/v1/info", "GET, HEAD"],
    ["GET", "/v1/runs/run_0190a0b0c0d07000800000000000000a/cancel", "POST"],
    ["HEAD", "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/events", "GET"],
    ["OPTIONS", "/v1/conversations", "GET, HEAD, POST"],
    ["PATCH", "/healthz", "GET, HEAD"],
    ["POST", "/openapi.json", "GET, HEAD"],
    ["DELETE", "/errors/not_found", "GET, HEAD"],
  ])("%s %s is told what there is", async (method, path, allow) => {
    const told = await world.refused(path, { key, method });
    expect(told.status).toBe(405);
    expect(told.headers.get("allow")).toBe(allow);
    if (method !== "HEAD") expectProblem(told, "method_not_allowed");
  });

  it.each(["/v1/agents/%", "/v1/agents/%zz", "/v1/agents/%c0%af", "/v1/agents/%ed%a0%80", "/%ff"])(
    "%s is not validly encoded",
    async (path) => {
      await refused(path, "invalid_request");
    },
  );

  it.each([
    "/v1/agents/%00",
    "/v1/agents/a%00b",
    "/v1/agents/..",
    "/v1/agents/..%2finfo",
    "/v1/agents/%F0%9F%9A%80",
    "/v1/agents/Support",
    `/v1/agents/${"a".repeat(129)}`,
    "/v1/conversations/%00",
    "/v1/conversations/cnv_x",
    "/v1/conversations/run_0190a0b0c0d07000800000000000000a",
    "/v1/conversations/cnv_0190A0B0C0D07000800000000000000A",
    "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a",
    "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/messages",
    "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/runs",
    "/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/events",
    "/v1/runs/run_0190a0b0c0d07000800000000000000a",
    "/v1/runs?conversation=nonsense",
    "/errors/nonsense",
    "/errors/__proto__",
  ])("%s names nothing", async (path) => {
    await refused(path, "not_found");
  });
});

describe("HEAD", () => {
  it("answers as GET does, without a body", async () => {
    const head = await world.fetch("/v1/info", { key, method: "HEAD" });
    const get = await world.fetch("/v1/info", { key });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
    expect(head.headers.get("content-length")).toBe(String((await get.arrayBuffer()).byteLength));
    expect(head.headers.get("signalbox-request-id")).toMatch(/^req_/);
  });

  it("needs a key as GET does", async () => {
    expect((await world.fetch("/v1/info", { method: "HEAD" })).status).toBe(401);
  });
});

describe("what the platform says about itself", () => {
  it("names what it can do and what bounds it", async () => {
    const { body } = await world.ask<Info>("/v1/info", { key });
    expect(body.features).toMatchObject({ feed: true, search: true, steering: true, holds: true, stops: true });
    expect(body.limits).toMatchObject({ holdPatienceMs: 20_000, slowReaderMs: 60_000, searchMs: 2_000 });
  });
});

describe("every answer", () => {
  it("names its request and the release", async () => {
    const told = await world.ask("/healthz");
    expect(told.headers.get("signalbox-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
    expect(told.headers.get("signalbox-version")).toBe(VERSION);
  });

  it("that is an error has a type that resolves", async () => {
    const { body } = await refused("/v1/nothing", "not_found");
    expect((await world.ask(body.type)).body).toEqual({
      code: "not_found",
      title: ERROR_CODES.not_found.title,
      status: 404,
      fault: "caller",
      retryable: false,
    });
  });
});

describe("who asks", () => {
  it.each<[string, Asked, string]>([
    ["nobody", {}, "Send an API key as"],
    ["no scheme", { headers: { authorization: "sbx_0123456789012345678901" } }, "Another scheme than Bearer"],
    ["another scheme", { headers: { authorization: "Basic c2J4OnB3" } }, "Another scheme than Bearer"],
    [
      "another token",
      { headers: { authorization: "Bearer sk-0123456789012345678901" } },
      "is not an API key of this platform",
    ],
    ["a short key", { headers: { authorization: "Bearer sbx_short" } }, "is not an API key of this platform"],
    [
      "an unknown key",
      { headers: { authorization: "Bearer sbx_01234567890123456789012345" } },
      "is not known or was revoked",
    ],
    [
      "a key in two pieces",
      { headers: { authorization: "Bearer sbx_012345678901 2345678901" } },
      "is not an API key of this platform",
    ],
  ])("is refused as %s, and told how to say it", async (_who, asked, detail) => {
    const told = await world.refused("/v1/info", asked);
    expectProblem(told, "unauthenticated");
    expect(told.body.detail).toContain(detail);
    expect(told.headers.get("www-authenticate")).toBe('Bearer realm="signalbox"');
  });

  it("may write the scheme in any case", async () => {
    expect((await world.ask("/v1/info", { headers: { authorization: `bearer ${key}` } })).status).toBe(200);
  });

  it("is never read from the query", async () => {
    expectProblem(await world.refused(`/v1/info?api_key=${key}&token=${key}`), "unauthenticated");
  });

  it("is asked before the body is read", async () => {
    expectProblem(await world.refused("/v1/agents", { body: "{not json" }), "unauthenticated");
    const reader = await world.key({ rights: ["read"] });
    expectProblem(await world.refused("/v1/agents", { key: reader, body: "{not json" }), "permission_denied");
  });
});

describe("queries", () => {
  it.each([
    ["/v1/agents?limit=0", "limit"],
    ["/v1/agents?limit=201", "limit"],
    ["/v1/agents?limit=-1", "limit"],
    ["/v1/agents?limit=1.5", "limit"],
    ["/v1/agents?limit=1e2", "limit"],
    ["/v1/agents?limit=", "limit"],
    ["/v1/agents?limit", "limit"],
    ["/v1/agents?limit=%31%00", "limit"],
    ["/v1/agents?order=up", "order"],
    ["/v1/agents?limit=1&limit=2", "limit"],
    ["/v1/agents?order=asc&order=asc", "order"],
    ["/v1/conversations?cursor=", "cursor"],
    [`/v1/conversations?cursor=${"x".repeat(513)}`, "cursor"],
    ["/v1/conversations/cnv_0190a0b0c0d07000800000000000000a/events?follow=maybe", "follow"],
  ])("%s is refused naming the parameter", async (path, pointer) => {
    const { body } = await refused(path, "invalid_request");
    expect(body.errors).toEqual([{ pointer, detail: expect.any(String) as string }]);
    expect(body.detail).toContain(pointer);
  });

  it.each([
    ["/v1/agents?page=2", "page"],
    ["/v1/info?verbose", "verbose"],
    ["/v1/runtimes?__proto__=1", "__proto__"],
    ["/v1/agents?constructor=1", "constructor"],
    ["/v1/runs?after=1", "after"],
    ["/healthz?x=1", "x"],
    ["/v1/agents?limit[]=1", "limit[]"],
  ])("%s is refused naming what does not exist", async (path, pointer) => {
    const { body } = await refused(path, "field_unknown");
    expect(body.errors).toEqual([{ pointer, detail: "There is no such field." }]);
  });

  it.each(["%00", "%F0%9F%9A%80%00", "%E2%80%AE", "'%3B--"])(
    "with %s as any parameter of any list break nothing",
    async (text) => {
      const api = await world.ask<OpenApi>("/openapi.json", { key });
      const lists = Object.entries(api.body.paths).filter(
        ([path, { get }]) => !path.includes("{") && get !== undefined,
      );
      const asked = lists.flatMap(([path, { get }]) =>
        (get?.parameters ?? [])
          .filter((parameter) => parameter.in === "query" && parameter.name !== "follow")
          .map(({ name }) => `${path}?${name}=${text}${path === "/v1/events" ? "&follow=false" : ""}`),
      );
      expect(asked.length).toBeGreaterThan(15);
      const broken: string[] = [];
      for (const path of asked) {
        const { status } = await world.ask(path, { key });
        if (![200, 400, 404].includes(status)) broken.push(`${status} ${path}`);
      }
      expect(broken).toEqual([]);
    },
  );

  it("of a POST are looked at too", async () => {
    const { body } = await refused("/v1/agents?dry_run=1", "field_unknown", {
      body: { name: "a", model: "sim/quote" },
    });
    expect(body.errors[0]?.pointer).toBe("dry_run");
  });

  it.each([
    "nonsense",
    "MQ",
    Buffer.from("1.\u0000").toString("base64url"),
    Buffer.from("1.'; drop table").toString("base64url"),
    Buffer.from("2.agt_0190a0b0c0d07000800000000000000a").toString("base64url"),
    "%00",
    "%F0%9F%9A%80",
  ])("with the cursor %j are refused, and nothing breaks", async (cursor) => {
    await world.ask("/v1/agents", { key, body: { name: "paged", model: "sim/quote" } });
    const { body } = await world.ask<{ id: string }>("/v1/conversations", { key, body: { agent: "paged" } });
    const history = `/v1/conversations/${body.id}/messages`;
    expectProblem(await world.refused(`${history}?cursor=${cursor}`, { key }), "invalid_cursor");
    for (const list of ["/v1/agents", "/v1/conversations", "/v1/runs"]) {
      const told = await world.refused(`${list}?cursor=${cursor}`, { key });
      expectProblem(told, "invalid_cursor");
    }
  });
});

describe("what is not a request", () => {
  it("is answered all the same", async () => {
    const told = await sendRaw("nonsense\r\n\r\n");
    expectProblem(told, "invalid_request");
  });

  it("because its headers have no end is refused for its size", async () => {
    expectProblem(
      await sendRaw(`GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(20_000)}\r\n\r\n`),
      "payload_too_large",
    );
  });

  it("because it names no host is told so", async () => {
    const told = await sendRaw("GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n");
    expectProblem(told, "invalid_request");
    expect(told.body.errors[0]?.pointer).toBe("Host");
  });

  it("because its length is told in two ways is refused", async () => {
    const lengths = "content-length: 2\r\ntransfer-encoding: chunked\r\n";
    expectProblem(await sendRaw(`POST /v1/agents HTTP/1.1\r\nhost: a\r\n${lengths}\r\n{}`), "invalid_request");
  });

  it("though it expects the unknown is answered", async () => {
    const told = await sendRaw("GET /healthz HTTP/1.1\r\nhost: a\r\nexpect: miracles\r\nconnection: close\r\n\r\n");
    expect(told.status).toBe(200);
  });
});

describe("the trace", () => {
  it("of the caller goes on in the run, and one that is none does not", async () => {
    await world.ask("/v1/agents", { key, body: { name: "traced", model: "sim/quote" } });
    const conversation = await world.ask<{ id: string }>("/v1/conversations", { key, body: { agent: "traced" } });
    const traceId = "0af7651916cd43dd8448eb211c80319c";
    const send = async (traceparent: string): Promise<string> => {
      const path = `/v1/conversations/${conversation.body.id}/messages`;
      const told = await world.ask<{ run: { traceId: string } }>(path, {
        key,
        body: { content: "hello" },
        headers: { traceparent },
      });
      return told.body.run.traceId;
    };
    expect(await send(`00-${traceId}-b7ad6b7169203331-01`)).toBe(traceId);
    expect(await send(`cc-${traceId}-b7ad6b7169203331-01-what-the-future-will-be-like`)).toBe(traceId);
    for (const header of [
      `00-${traceId}-b7ad6b7169203331-01-more`,
      `ff-${traceId}-b7ad6b7169203331-01`,
      `00-${traceId}-0000000000000000-01`,
      `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
      `00-${traceId.toUpperCase()}-b7ad6b7169203331-01`,
      "nonsense",
    ]) {
      expect(await send(header)).toMatch(/^(?!0af7651916cd43dd8448eb211c80319c)(?!0{32})[0-9a-f]{32}$/);
    }
  });
});

/** Sends these bytes and reads whatever comes until the connection is closed. */
async function sendRaw(text: string): Promise<Told<Problem>> {
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  socket.setEncoding("utf8");
  socket.write(text);
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  const [line = "", ...lines] = head.split("\r\n");
  const headers = new Headers(
    lines.map((each): [string, string] => [each.split(": ")[0] ?? "", each.split(": ")[1] ?? ""]),
  );
  // Read by the assertions of each test.
  return { status: Number(line.split(" ")[1]), headers, body: JSON.parse(body) as Problem };
}
