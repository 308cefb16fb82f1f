import { describe, expect, it } from "vitest";
import { plainNaming, PREFIXED, renameUris } from "./naming.ts";

describe("names of several servers at one address", () => {
  it.each([
    ["docs", "read", "docs__read"],
    ["docs", "a__b", "docs__a__b"],
    ["my-docs", "a.b/c", "my-docs__a.b/c"],
  ])("%s and %s are %s, and back", (server, name, whole) => {
    expect(PREFIXED.name({ server, name })).toBe(whole);
    expect(PREFIXED.parseName(whole)).toEqual({ server, name });
  });

  it("are URIs that stay URIs", () => {
    const whole = PREFIXED.uri({ server: "docs", name: "file:///a+b/{id}" });
    expect(whole).toBe("mcp+docs+file:///a+b/{id}");
    expect(PREFIXED.parseUri(whole)).toEqual({ server: "docs", name: "file:///a+b/{id}" });
    expect(URL.canParse(PREFIXED.uri({ server: "docs", name: "test://x" }))).toBe(true);
  });

  it.each(["read", "__read", 7, null])("are not %j", (name) => {
    expect(PREFIXED.parseName(name)).toBeNull();
    expect(PREFIXED.parseUri(name)).toBeNull();
  });

  it("are renamed wherever a result names a resource", () => {
    const link = { type: "resource_link", uri: "t://1", name: "one" };
    const embedded = { type: "resource", resource: { uri: "t://2", text: "x" } };
    const text = { type: "text", text: "t://3" };
    expect(renameUris(PREFIXED, "s", { content: [link, embedded, text] })).toEqual({
      content: [{ ...link, uri: "mcp+s+t://1" }, { ...embedded, resource: { uri: "mcp+s+t://2", text: "x" } }, text],
    });
    expect(renameUris(PREFIXED, "s", { messages: [{ role: "user", content: embedded }] })).toEqual({
      messages: [{ role: "user", content: { ...embedded, resource: { uri: "mcp+s+t://2", text: "x" } } }],
    });
    expect(renameUris(plainNaming("s"), "s", { contents: [{ uri: "t://2" }] })).toEqual({
      contents: [{ uri: "t://2" }],
    });
  });
});
