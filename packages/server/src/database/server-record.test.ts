import { describe, expect, it } from "vitest";
import { parsePostmasterFile } from "./server-record.ts";

describe("postmaster.pid", () => {
  it("names the server, its socket and its state", () => {
    const text = "6634\n/data\n1796051202\n5432\n/tmp/sbx-a\n\n 16039958 4\nready   \n";
    expect(parsePostmasterFile(text)).toEqual({ pid: 6634, socketDir: "/tmp/sbx-a", status: "ready" });
  });

  it("is incomplete while the server begins", () => {
    expect(parsePostmasterFile("6634\n/data\n1796051202\n5432\n")).toEqual({ pid: 6634, socketDir: "", status: "" });
  });

  it.each(["", "\n", "nonsense", "-1\n", "0\n"])("says nothing as %j", (text) => {
    expect(parsePostmasterFile(text)).toBeNull();
  });
});
