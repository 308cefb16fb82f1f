import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkDocuments } from "./documents.ts";
import { checkPackages } from "./packages.ts";

const whole: Readonly<Record<string, string>> = {
  "README.md": "# Signalbox\n\n```sh\nnpm start   # x\nnpm test\n```\n[glossary](docs/glossary.md)",
  "ARCHITECTURE.md": "",
  "AGENTS.md": "",
  "REVIEW.md": "",
  LICENSE: "",
  "docs/glossary.md": "",
  "docs/decisions/0001-first.md": "# 0001 First",
  ...Object.fromEntries(
    ["endpoint", "event", "error-code", "gate", "executor", "migration"].map((name) => [`docs/how-to/${name}.md`, ""]),
  ),
};

function found(change: Readonly<Record<string, string>>): readonly string[] {
  return said(checkDocuments(planted({ ...whole, ...change })));
}

describe("documents", () => {
  it("accepts a whole set", () => {
    expect(found({})).toEqual([]);
  });

  it("reports a missing checklist", () => {
    const { "docs/how-to/gate.md": _, ...rest } = whole;
    expect(said(checkDocuments(planted(rest)))).toEqual(["docs/how-to/gate.md:0 is missing"]);
  });

  it("reports decisions with a gap, a wrong name or a wrong heading", () => {
    expect(
      found({
        "docs/decisions/0003-later.md": "# 0003 Later",
        "docs/decisions/0001-first.md": "# First",
        "docs/decisions/notes.md": "",
      }),
    ).toEqual([
      'docs/decisions/0001-first.md:1 opens with "# 0001 " and its title',
      "docs/decisions/0003-later.md:0 decisions are numbered without gaps; 0002 is due here",
      "docs/decisions/notes.md:0 decisions are named NNNN-title.md",
    ]);
  });

  it("reports a link and a checklist path that lead nowhere", () => {
    expect(
      found({
        "AGENTS.md": "[x](docs/gone.md) [y](https://example.org) [z](#here)",
        "docs/how-to/gate.md": "Edit `packages/gone.ts`.",
      }),
    ).toEqual([
      "AGENTS.md:1 names docs/gone.md, which does not exist",
      "docs/how-to/gate.md:1 names packages/gone.ts, which does not exist",
    ]);
  });

  it("reports a README that does not open with the two commands", () => {
    expect(found({ "README.md": "```sh\nnpm test\nnpm start\n```" })).toEqual([
      "README.md:0 opens with npm start and npm test",
    ]);
  });

  it("reports a path that exists on one machine only", () => {
    const path = ["", "home", "someone"].join("/");
    expect(found({ "AGENTS.md": `see ${path}/notes` })).toEqual([`AGENTS.md:1 names ${path}, a path of one machine`]);
  });

  it.each([
    ["// as said in ? or so", ["PLAN", "§4"].join(" ")],
    ["// ? explains", ["PLAN.md", "§"].join(" ")],
    ["it('?: a torn line')", ["H", "034"].join("-")],
  ])("reports what a reader does not have: %s", (text, named) => {
    const row = text.replace("?", named);
    const file = "packages/core/src/run/state.ts";
    expect(found({ [file]: row })).toEqual([
      `${file}:1 refers to "${named}", which is not in this repository; give the reason here`,
    ]);
  });

  it("accepts standards, promises and bars", () => {
    expect(found({ "AGENTS.md": "RFC 8785 §3.2, INV-04, P-1, ISO-8601, X-Y-012" })).toEqual([]);
  });
});

describe("packages", () => {
  const root = '{"name":"r","version":"1.0.0","license":"Apache-2.0","type":"module"}';
  const one = (manifest: object): readonly string[] =>
    said(
      checkPackages(
        planted({
          "package.json": root,
          "docs/decisions/0001-pg.md": "# 0001 `pg`",
          "packages/a/package.json": JSON.stringify({
            name: "a",
            version: "1.0.0",
            license: "Apache-2.0",
            type: "module",
            ...manifest,
          }),
        }),
      ),
    ).map((line) => line.replace("packages/a/package.json:0 ", ""));

  it("accepts an exact dependency with a record", () => {
    expect(one({ dependencies: { pg: "8.1.0", a: "1.0.0" } })).toEqual([]);
  });

  it("reports a range, a dependency without record, another version, another licence", () => {
    expect(one({ dependencies: { pg: "^8.1.0" } })).toEqual(["wants pg ^8.1.0; versions are exact"]);
    expect(one({ dependencies: { ws: "8.1.0" } })).toEqual([
      "depends on ws, which no record in docs/decisions explains",
    ]);
    expect(one({ version: "2.0.0" })).toEqual(["has version 2.0.0; all packages carry 1.0.0"]);
    expect(one({ license: "MIT" })).toEqual(["is an ES module under Apache-2.0, like every package"]);
  });

  it("reports a lock that names other dependencies", () => {
    const a = { name: "a", version: "1.0.0", license: "Apache-2.0", type: "module", dependencies: { pg: "8.1.0" } };
    const lock = (pg: string): string =>
      JSON.stringify({ packages: { "": {}, "packages/a": { dependencies: { pg } } } });
    const check = (pg: string): readonly string[] =>
      said(
        checkPackages(
          planted({
            "package.json": root,
            "packages/a/package.json": JSON.stringify(a),
            "package-lock.json": lock(pg),
            "docs/decisions/0001-pg.md": "`pg`",
          }),
        ),
      );
    expect(check("8.1.0")).toEqual([]);
    expect(check("8.0.0")).toEqual([
      "packages/a/package.json:0 has other dependencies than package-lock.json; npm ci would refuse",
    ]);
  });
});
