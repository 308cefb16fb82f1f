/** The limit of a tenant's open runs holds whatever arrives at once. */
import { expect, it } from "vitest";
import { codeOf, commandFor } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

const LIMIT = 10;
const AT_ONCE = 50;

async function sendAtOnce(own: RecordWorld, tenantLimit: number): Promise<readonly string[]> {
  const processes: RecordProcess[] = [];
  while (processes.length < 6) processes.push(await own.process());
  const places = [];
  while (places.length < AT_ONCE) places.push(await own.conversation());
  return Promise.all(
    places.map((place, index) => {
      const process = processes[index % processes.length]!;
      return codeOf(process.admission.admit(commandFor(place, { tenantLimit })));
    }),
  );
}

const openRuns = async (own: RecordWorld) =>
  (await own.one<{ open: number }>("select count(*)::integer as open from signalbox.run")).open;

it("fifty messages at once open as many runs as the tenant may have, and no more", { timeout: 60_000 }, async () => {
  await using own = await RecordWorld.open();
  const codes = await sendAtOnce(own, LIMIT);
  expect(await openRuns(own)).toBe(LIMIT);
  expect(codes.toSorted()).toEqual([
    ...Array.from({ length: LIMIT }, () => "accepted"),
    ...Array.from({ length: AT_ONCE - LIMIT }, () => "too_many_runs"),
  ]);
});

it("far from the limit all of them are let in", { timeout: 60_000 }, async () => {
  await using own = await RecordWorld.open();
  const codes = await sendAtOnce(own, 10_000);
  expect(new Set(codes)).toEqual(new Set(["accepted"]));
  expect(await openRuns(own)).toBe(AT_ONCE);
});
