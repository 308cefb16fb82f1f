import type { Problem } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, type Asked, type Told } from "../../setup/api-world.ts";
import { expectProblem } from "./problems.ts";

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

describe("bodies", () => {
  const post = (body: unknown, headers: Readonly<Record<string, string>> = {}): Asked => ({ body, headers });

  it.each<[string, string, Asked]>([
    ["none at all", "invalid_request", { method: "POST" }],
    ["an empty one", "malformed_json", post("")],
    ["half of one", "malformed_json", post('{"name": "sup')],
    ["single quotes", "malformed_json", post("{'name': 'support'}")],
    ["two of them", "malformed_json", post("{}{}")],
    ["JSON with a comment", "malformed_json", post("{} // really")],
    ["half an emoji quoted in the reason", "malformed_json", post(`{"name": 🚀🚀🚀🚀🚀🚀🚀🚀🚀🚀}`)],
    ["bytes that are not UTF-8", "invalid_encoding", post(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d))],
    ["overlong UTF-8", "invalid_encoding", post(Uint8Array.of(0x22, 0xc0, 0x80, 0x22))],
    ["UTF-16", "invalid_encoding", post(Buffer.from("\ufeff{}", "utf16le"))],
    ["a string", "invalid_request", post('"support"')],
    ["a list", "invalid_request", post("[]")],
    ["null", "invalid_request", post("null")],
    ["a form", "unsupported_media_type", post("name=support", { "content-type": "application/x-www-form-urlencoded" })],
    ["text", "unsupported_media_type", post("{}", { "content-type": "text/plain" })],
    ["nonsense", "unsupported_media_type", post("{}", { "content-type": "nonsense" })],
    ["another JSON", "unsupported_media_type", post("{}", { "content-type": "application/merge-patch+json" })],
    ["Latin-1", "unsupported_media_type", post("{}", { "content-type": "application/json; charset=iso-8859-1" })],
    ["a compressed one", "unsupported_media_type", post("{}", { "content-encoding": "gzip" })],
  ])("%s: %s", async (_what, code, asked) => {
    const { body } = await refused("/v1/agents", code, asked);
    expect(body.detail.isWellFormed()).toBe(true);
  });

  it.each(["application/json", "application/json;charset=utf-8", 'APPLICATION/JSON; charset="UTF-8"'])(
    "of the type %s are read",
    async (type) => {
      const body = { name: "Support", model: "sim/quote" };
      const told = await refused("/v1/agents", "invalid_request", post(JSON.stringify(body), { "content-type": type }));
      expect(told.body.errors[0]?.pointer).toBe("/name");
    },
  );

  it("may begin with a byte order mark", async () => {
    await refused("/v1/agents", "invalid_request", post(`\ufeff{"name":"Support","model":"sim/quote"}`));
  });

  it("are refused by field, all fields at once", async () => {
    const { body } = await refused("/v1/agents", "invalid_request", post({ name: "Support", model: 5, tools: ["x"] }));
    expect(body.errors.map(({ pointer }) => pointer)).toEqual(["/name", "/model", "/tools/0"]);
  });

  it("with fields that do not exist are refused by their names", async () => {
    const { body } = await refused(
      "/v1/agents",
      "field_unknown",
      post({ name: "a", model: "sim/q", "a/b~c": 1, x: 2 }),
    );
    expect(body.errors.map(({ pointer }) => pointer)).toEqual(["/a~1b~0c", "/x"]);
  });

  it.each([
    ["at the top", '{"name":"a","model":"sim/q","__proto__":{"admin":true}}', "/__proto__"],
    ["where any key may stand", '{"agent":"a","metadata":{"__proto__":"x"}}', "/metadata/__proto__"],
  ])("with a key named __proto__ %s are refused", async (_where, text, pointer) => {
    const { body } = await refused("/v1/conversations", "field_unknown", post(text));
    expect(body.errors).toEqual([{ pointer, detail: "There is no such field." }]);
  });

  it("that are a bomb of brackets are refused while there is stack left", async () => {
    for (const text of ["[".repeat(490_000) + "]".repeat(490_000), `${'{"a":'.repeat(90_000)}1${"}".repeat(90_000)}`]) {
      const { body } = await refused("/v1/agents", "invalid_request", post(text));
      expect(body.detail).toContain("64");
      expect(JSON.stringify(body).length).toBeLessThan(2_000);
    }
  });

  it("of up to 1 MB are read, and larger ones refused", async () => {
    const filled = (bytes: number) => `{"name":"${"x".repeat(bytes - 11)}"}`;
    expect(filled(1_000_000)).toHaveLength(1_000_000);
    await refused("/v1/agents", "invalid_request", post(filled(1_000_000)));
    await refused("/v1/agents", "payload_too_large", post(filled(1_000_001)));
  });

  it("name at most so much of what they got wrong", async () => {
    const unknown = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`field${at}${"x".repeat(100)}`, at]));
    const { body } = await refused("/v1/agents", "field_unknown", post({ ...unknown, ["y".repeat(10_000)]: 1 }));
    expect(body.errors).toHaveLength(32);
    expect(JSON.stringify(body).length).toBeLessThan(20_000);
  });

  it("of an address that takes none must be empty", async () => {
    const path = "/v1/runs/run_0190a0b0c0d07000800000000000000a/cancel";
    await refused(path, "not_found", { method: "POST" });
    await refused(path, "not_found", post({}));
    const { body } = await refused(path, "field_unknown", post({ force: true }));
    expect(body.errors[0]?.pointer).toBe("/force");
  });

  it("with NUL and half characters are mended before anything is stored", async () => {
    await world.ask("/v1/agents", { key, body: { name: "mended", model: "sim/quote" } });
    const body = '{"agent":"mended","title":"a\\u0000b \\ud83d literal \\\\u0000","metadata":{"k\\u0000":"\\udc00"}}';
    const told = await world.ask("/v1/conversations", { key, body });
    expect(told.body).toMatchObject({ title: "a\ufffdb \ufffd literal \\u0000", metadata: { "k\ufffd": "\ufffd" } });
  });
});
