import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkLayers, usedLayers, type Layers } from "./layers.ts";

const CORE = "packages/core/src";

function repository(files: Readonly<Record<string, string>>, change: Partial<Layers> = {}): ReturnType<typeof planted> {
  const layers: Layers = {
    layers: {
      contract: { path: "packages/contract/src", imports: [], outside: ["zod"] },
      core: { path: CORE, flat: true, imports: ["core/turn"] },
      "core/run": { path: `${CORE}/run`, pure: true, imports: ["contract"] },
      "core/turn": { path: `${CORE}/turn`, imports: ["core/run"] },
    },
    never: [{ from: "core/turn", to: "core/admission", why: "they meet at the record" }],
    ...change,
  };
  return planted({
    "layers.json": JSON.stringify(layers),
    "packages/contract/package.json": '{"name":"@signalbox/contract"}',
    "packages/contract/src/index.ts": 'import { z } from "zod";',
    "packages/core/package.json": '{"name":"@signalbox/core"}',
    [`${CORE}/index.ts`]: 'export { turn } from "./turn/turn.ts";',
    [`${CORE}/run/state.ts`]: 'import type { RunId } from "@signalbox/contract";',
    [`${CORE}/turn/turn.ts`]: 'import { state } from "../run/state.ts";',
    ...files,
  });
}

describe("layers", () => {
  it("accepts a tree that uses exactly what it is permitted", () => {
    expect(said(checkLayers(repository({})))).toEqual([]);
  });

  it("reports an import against the direction, with its line", () => {
    const found = checkLayers(
      repository({ [`${CORE}/run/state.ts`]: 'import "@signalbox/contract";\nimport "../turn/turn.ts";' }),
    );
    expect(said(found)).toEqual([`${CORE}/run/state.ts:2 core/run may not import core/turn`]);
  });

  it("reports a permission nobody uses", () => {
    const found = checkLayers(repository({ [`${CORE}/turn/turn.ts`]: "export const turn = 1;" }));
    expect(said(found)).toEqual(["layers.json:0 core/turn may import core/run, but nothing in it does"]);
  });

  it("reports a package of others that is not listed, and one that is listed and unused", () => {
    const found = checkLayers(repository({ "packages/contract/src/index.ts": 'import pg from "pg/lib/x.js";' }));
    expect(said(found)).toEqual([
      "packages/contract/src/index.ts:1 contract may not import the package pg",
      "layers.json:0 contract may import the package zod, but nothing in it does",
    ]);
  });

  it("reports a folder that is declared nowhere", () => {
    const found = checkLayers(repository({ [`${CORE}/drawer/thing.ts`]: "" }));
    expect(said(found)).toEqual([`${CORE}/drawer/thing.ts:1 belongs to no layer; declare its folder in layers.json`]);
  });

  it("reports a layer without files", () => {
    const base = JSON.parse(repository({}).files.get("layers.json")!) as Layers;
    const layers = { ...base.layers, "core/gone": { path: `${CORE}/gone`, imports: [] } };
    expect(said(checkLayers(repository({}, { layers })))).toEqual(["layers.json:0 core/gone holds no file"]);
  });

  it("reports waiting in a folder of facts", () => {
    const text = 'import "@signalbox/contract";\nexport const later = async () => 1;';
    const found = checkLayers(repository({ [`${CORE}/run/state.ts`]: text }));
    expect(said(found)).toEqual([`${CORE}/run/state.ts:2 core/run holds facts: pure, nothing in it waits`]);
  });

  it("reports a pair that never meets even when the list permits it", () => {
    const base = JSON.parse(repository({}).files.get("layers.json")!) as Layers;
    const layers = {
      ...base.layers,
      "core/admission": { path: `${CORE}/admission`, imports: [] },
      "core/turn": { path: `${CORE}/turn`, imports: ["core/run", "core/admission"] },
    };
    const found = checkLayers(
      repository(
        {
          [`${CORE}/admission/admit.ts`]: "export const admit = 1;",
          [`${CORE}/turn/turn.ts`]: 'import "../run/state.ts";\nimport "../admission/admit.ts";',
        },
        { layers },
      ),
    );
    expect(said(found)).toEqual([
      `${CORE}/turn/turn.ts:2 core/turn never imports core/admission: they meet at the record`,
    ]);
  });

  it("reports another package imported by path", () => {
    const text = 'import { state } from "../run/state.ts";\nimport "../../../contract/src/index.ts";';
    const found = checkLayers(repository({ [`${CORE}/turn/turn.ts`]: text }));
    expect(said(found)).toEqual([`${CORE}/turn/turn.ts:2 imports another package by path; import it by name`]);
  });

  it("lets tests import what they need", () => {
    expect(said(checkLayers(repository({ [`${CORE}/run/state.test.ts`]: 'import "../turn/turn.ts";' })))).toEqual([]);
  });

  it("can say what is used today", () => {
    const tree = repository({ [`${CORE}/turn/turn.ts`]: 'import "@signalbox/contract";\nimport "pg";' });
    const layers = JSON.parse(tree.files.get("layers.json")!) as Layers;
    expect(usedLayers(tree, layers).layers["core/turn"]).toEqual({
      path: `${CORE}/turn`,
      imports: ["contract"],
      outside: ["pg"],
    });
  });
});
