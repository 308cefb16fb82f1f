import { expect, it } from "vitest";
import { migrate, readMigrations } from "../../../packages/server/src/store/migrations.ts";
import { cloneDatabase } from "../../setup/clone-database.ts";

it("two starts at once apply every migration once", async () => {
  await using database = await cloneDatabase("template0");
  const reports = await Promise.all([migrate(database.config), migrate(database.config), migrate(database.config)]);
  const applied = reports.flatMap((report) => report.applied);
  expect(applied).toEqual(readMigrations().map((migration) => migration.name));
  expect(reports.map((report) => report.version)).toEqual([applied.length, applied.length, applied.length]);
});
