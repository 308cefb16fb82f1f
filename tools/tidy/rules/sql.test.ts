import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkSql } from "./sql.ts";

const API = "packages/server/src/api/runs.ts";
const SQL = "packages/server/migrations/0001-first.sql";

describe("sql", () => {
  it.each([
    "select * from runs",
    "  INSERT INTO runs values (1)",
    "update runs set state = 'x'",
    "delete from runs",
    "with due as (select 1) select 1 from due",
    "select app.claim($1)",
    "create table x (id int)",
  ])("reports %j outside a statement file", (text) => {
    expect(said(checkSql(planted({ [API]: `const a = \`${text}\`;` })))).toEqual([
      `${API}:1 holds SQL; statements live in statement files`,
    ]);
  });

  it("accepts it in a statement file, but nothing in api is one", () => {
    const text = 'export const CLAIM = "select app.claim($1)";';
    expect(checkSql(planted({ "packages/server/src/channels/truth/claim-statements.ts": text }))).toEqual([]);
    expect(checkSql(planted({ "packages/server/src/store/statements/claim.ts": text }))).toEqual([]);
    expect(checkSql(planted({ "packages/server/src/api/statements.ts": text }))).toHaveLength(1);
  });

  it("does not take prose for SQL", () => {
    const text =
      'const b = "update the plan"; const c = "Create a run"; const d = "with care"; const e = "select one";';
    expect(checkSql(planted({ [API]: text }))).toEqual([]);
  });

  it("reports a doorbell rung inside a write", () => {
    const bad =
      "create function app.append(a int) returns void language plpgsql as $$ begin insert into events values (a); perform pg_notify('x', ''); end $$;";
    const good = "create function app.ring() returns void language sql as $$ select pg_notify('x', '') $$;";
    expect(said(checkSql(planted({ [SQL]: `${good}\n${bad}` })))).toEqual([
      `${SQL}:2 app.append writes and notifies; ring the doorbell after the commit`,
    ]);
    expect(checkSql(planted({ [SQL]: good }))).toEqual([]);
  });

  it("reports a statement that takes the time from elsewhere than the clock function", () => {
    const text = [
      "create function app.clock() returns timestamptz language sql as $$ select clock_timestamp() $$;",
      "create function app.renew() returns void language sql as $$ update leases set at = clock_timestamp() $$;",
      "alter table runs alter at set default now();",
      "-- now() in a comment is prose",
    ].join("\n");
    expect(said(checkSql(planted({ [SQL]: text })))).toEqual([
      `${SQL}:2 app.renew reads the clock itself; time comes from the clock function`,
      `${SQL}:3 takes the transaction's time; time comes from the clock function`,
    ]);
  });
});
