import { describe, expect, it } from "vitest";
import { embeddedUrl } from "./connection.ts";
import { failureOf } from "./database-error.ts";
import { layoutOf } from "./layout.ts";
import { Client } from "pg";

describe("the layout", () => {
  it("puts the cluster where the documents say", () => {
    expect(layoutOf("/srv/box")).toMatchObject({ clusterDir: "/srv/box/postgres", runDir: "/srv/box/postgres.run" });
  });

  it("refuses a path PostgreSQL cannot take", () => {
    let thrown: unknown = null;
    try {
      layoutOf(`/${"d".repeat(901)}`);
    } catch (error) {
      thrown = error;
    }
    expect(failureOf(thrown)).toBe("path_too_long");
  });
});

describe("the address of the embedded database", () => {
  it("is read by `pg` as the socket it means", () => {
    const client = new Client({ connectionString: embeddedUrl("/tmp/a b/sbx-ä&?") });
    expect(client).toMatchObject({ host: "/tmp/a b/sbx-ä&?", port: 5432, user: "postgres", database: "signalbox" });
  });
});
