import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkCasts } from "./casts.ts";
import { checkDeadFiles } from "./dead-files.ts";
import { checkExports } from "./exports.ts";
import { checkNames } from "./names.ts";
import { checkSizes } from "./sizes.ts";
import { checkSyntax } from "./syntax.ts";

const FILE = "packages/core/src/run/state.ts";

describe("sizes", () => {
  it("reports a file of more than 400 lines, and only then", () => {
    const lines = (count: number): string => "x;\n".repeat(count);
    expect(checkSizes(planted({ [FILE]: lines(400) }))).toEqual([]);
    expect(said(checkSizes(planted({ [FILE]: lines(401) })))).toEqual([`${FILE}:0 has 401 lines; the limit is 400`]);
    expect(checkSizes(planted({ "packages/contract/src/gen/wire.ts": lines(900) }))).toEqual([]);
  });

  it("reports documents that grew past reading", () => {
    const text = "x\n".repeat(201);
    expect(said(checkSizes(planted({ "ARCHITECTURE.md": text, "AGENTS.md": text, "README.md": text })))).toEqual([
      "ARCHITECTURE.md:0 has 201 lines; the limit is 200",
      "AGENTS.md:0 has 201 lines; the limit is 60",
    ]);
  });
});

describe("names", () => {
  it.each(["utils.ts", "string-helpers.ts", "common/x.ts", "misc.sql", "types.ts", "run.types.ts"])(
    "reports %s",
    (name) => {
      const found = checkNames(planted({ [`packages/core/src/${name}`]: "" }));
      expect(found).toHaveLength(name === "run.types.ts" ? 0 : 1);
    },
  );

  it("reports a name that is not kebab-case and an inner index", () => {
    expect(
      said(checkNames(planted({ "packages/core/src/runState.ts": "", "packages/core/src/run/index.ts": "" }))),
    ).toEqual([
      "packages/core/src/runState.ts:0 file names are kebab-case",
      "packages/core/src/run/index.ts:0 only a package has an index.ts",
    ]);
  });
});

describe("exports", () => {
  it("reports a barrel, and an entry that does not list names", () => {
    const index = "packages/core/src/index.ts";
    const found = checkExports(
      planted({
        [FILE]: 'export { a } from "./a.ts";',
        [index]: 'export { a } from "./run/a.ts";\nexport * from "./b.ts";',
      }),
    );
    expect(said(found)).toEqual([
      `${FILE}:1 hands on ./a.ts; only a package's index.ts does`,
      `${index}:2 exports everything of ./b.ts; list the names`,
    ]);
  });
});

describe("casts", () => {
  it("reports a cast without a sentence", () => {
    const found = checkCasts(
      planted({ [FILE]: "const a = 1 as const;\nconst b = c as unknown as D;\nconst e = f as G;" }),
    );
    expect(said(found).map((line) => line.slice(0, FILE.length + 2))).toEqual([`${FILE}:2`, `${FILE}:3`]);
  });

  it("asks once for a statement, and takes one sentence for it", () => {
    const row = "return {\n  a: r.a as A,\n  b: r.b as B,\n};";
    expect(said(checkCasts(planted({ [FILE]: `function f() {\n${row}\n}` }))).length).toBe(1);
    expect(checkCasts(planted({ [FILE]: `function f() {\n// Checked by the table.\n${row}\n}` }))).toEqual([]);
    expect(checkCasts(planted({ [FILE]: `// About f.\nfunction f() {\n${row}\n}` })).length).toBe(1);
  });

  it("accepts one with a comment beside or above it", () => {
    const text = "// Checked two lines up.\nconst b = c as D;\n\nconst e = f as G; // made by us";
    expect(checkCasts(planted({ [FILE]: text }))).toEqual([]);
  });
});

describe("dead files", () => {
  it("reports a file nothing mentions", () => {
    const found = checkDeadFiles(
      planted({
        "packages/core/src/index.ts": 'export { a } from "./live.ts";',
        "packages/core/src/live.ts": "",
        "packages/core/src/dead.ts": "",
        "packages/core/src/relive.ts": "",
        "packages/server/migrations/0001.sql": "",
        "packages/server/src/migrate.ts": 'new URL("../migrations/", import.meta.url)',
        "packages/server/src/main.ts": 'import "./migrate.ts";',
        "packages/server/package.json": '{"bin":"./dist/main.js"}',
        "docs/lost.md": "",
      }),
    );
    expect(said(found).map((line) => line.split(":")[0])).toEqual([
      "packages/core/src/dead.ts",
      "packages/core/src/relive.ts",
      "docs/lost.md",
    ]);
  });
});

describe("syntax", () => {
  it("reports a file the parser cannot read", () => {
    expect(checkSyntax(planted({ [FILE]: "const = ;" })).length).toBeGreaterThan(0);
    expect(checkSyntax(planted({ [FILE]: "const a: number = 1;" }))).toEqual([]);
  });
});
