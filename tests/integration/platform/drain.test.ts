/** A process that leaves in order, under load: nothing that was acknowledged is lost, and nothing waits for a sweep. */
import { afterEach, expect, test } from "vitest";
import { RealProcess, environmentOf } from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";
import { endingsOf, makeAgent, sendEach, setNeighbourhood, untilOffered, type Sent } from "./several.ts";

const SHORT = "[[sim:tokens 20]] [[sim:slow 40]] Tell me something.";
/** From the commit that gives a run back to the one that takes it up, on a machine that is busy with both. */
const TAKEN_UP_MS = 2_000;
/** Longer than a drain waits: handed over. */
const LONG = "[[sim:tokens 300]] [[sim:slow 200]] Tell me everything.";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

test(
  "`signalbox drain` under load: runs end or are handed over, and every acknowledged message is answered",
  { timeout: 300_000 },
  async () => {
    const place = await setNeighbourhood(stack);
    const leaving = await place.node();
    const staying = await place.node();
    place.worker(leaving.gatesUrl);
    place.worker(staying.gatesUrl);
    const [here, there] = [place.client(leaving.url), place.client(staying.url)];
    await makeAgent(here);
    await untilOffered(there, 2);

    const sent: Sent[] = [...(await sendEach(here, 1, LONG)), ...(await sendEach(here, 4, SHORT))];
    await until("runs under way", async () => {
      const { rows } = await place.database.query<{ count: number }>(
        "select count(*)::int as count from signalbox.run where state = 'running'",
      );
      return (rows[0]?.count ?? 0) >= 3;
    });
    const drain = new RealProcess(
      ["drain", "--pid", String(leaving.process.child.pid), "--wait", "60", "--json"],
      environmentOf(place.facts),
    );
    stack.use(drain);
    const told = drain.firstLine();
    // Messages go on arriving on both sides while one of them leaves; what is not acknowledged is not owed.
    for (let round = 0; round < 6; round += 1) {
      sent.push(...(await sendEach(there, 1, SHORT)));
      sent.push(...(await sendEach(here, 1, SHORT).catch(() => [])));
    }
    expect(JSON.parse(await told)).toMatchObject({ pid: leaving.process.child.pid, ended: true });
    await until("its parent hears that it is gone", () => !leaving.process.running);

    const endings = await endingsOf(place.database, sent);
    expect(endings.map((ending) => ending.reason)).toEqual(endings.map(() => "answered"));
    // A run that the sweep had to find would say that its owner was lost.
    const { rows: swept } = await place.database.query(
      `select run_id from signalbox.audit_pending where action = 'run_recovered'
     and convert_from(bytes, 'UTF8')::json #>> '{facts,cause}' = 'owner_lost'`,
    );
    expect(swept).toEqual([]);
    // The long one was given back and begun again by the other process.
    const { rows: starts } = await place.database.query<{ process: string }>(
      `select convert_from(bytes, 'UTF8')::json #>> '{facts,process}' as process
     from signalbox.audit_pending where run_id = $1 and action = 'run_started' order by id`,
      [sent[0]?.runId],
    );
    expect(new Set(starts.map((start) => start.process)).size).toBe(2);
    // Whoever takes it over is woken by the release; a process that only looks now and then would take its time.
    const { rows: waits } = await place.database.query<{ ms: number }>(
      `select extract(epoch from max(at) filter (where action = 'run_started')
                               - max(at) filter (where action = 'run_admitted'))::float8 * 1000 as ms
       from signalbox.audit_pending where run_id = $1`,
      [sent[0]?.runId],
    );
    expect(waits[0]?.ms).toBeGreaterThanOrEqual(0);
    expect(waits[0]?.ms).toBeLessThan(TAKEN_UP_MS);
  },
);

test("`signalbox drain` names what it cannot find", { timeout: 300_000 }, async () => {
  const place = await setNeighbourhood(stack);
  const drain = new RealProcess(["drain"], environmentOf(place.facts));
  stack.use(drain);
  await until("its end", () => !drain.running);
  expect(drain.child.exitCode).toBe(2);
  expect(drain.output).toContain("no platform process uses");
});
