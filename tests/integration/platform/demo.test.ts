/** The demonstrations as a user runs them: they keep their promises, and see when a promise is taken away. */
import { expect, test } from "vitest";
import { RealProcess } from "../../setup/real-processes.ts";

interface Finding {
  readonly promised: string;
  readonly saw: string;
  readonly holds: boolean;
}

async function demonstrate(...words: readonly string[]) {
  await using child = new RealProcess(["demo", ...words, "--json"], {});
  const line = await child.firstLine(100_000);
  // What the command prints; its shape is what is tested.
  return JSON.parse(line) as { readonly holds: boolean; readonly findings: readonly Finding[] };
}

function broken(findings: readonly Finding[]): readonly string[] {
  return findings.filter(({ holds }) => !holds).map(({ promised }) => promised);
}

test("crash: nobody who reads can tell that the worker and then the platform were killed", async () => {
  const { holds, findings } = await demonstrate("crash");
  expect(broken(findings)).toEqual([]);
  expect(holds).toBe(true);
});

test("zombie: a worker that was thought dead is refused at every gate", async () => {
  const { holds, findings } = await demonstrate("zombie");
  expect(broken(findings)).toEqual([]);
  expect(holds).toBe(true);
});

test("zombie without its fence: the table shows it", async () => {
  const { holds, findings } = await demonstrate("zombie", "--break", "INV-06");
  expect(holds).toBe(false);
  expect(broken(findings)).toContain("INV-06: the zombie's model call is not authorised");
});

test("approval: a payment waits for a person, whatever is restarted, and is made once", async () => {
  const { holds, findings } = await demonstrate("approval");
  expect(broken(findings)).toEqual([]);
  expect(holds).toBe(true);
});

test("approval that is not waited for: the table shows it", async () => {
  const { holds, findings } = await demonstrate("approval", "--break", "INV-12");
  expect(holds).toBe(false);
  expect(broken(findings)).toContain("INV-12: nothing is paid before somebody has approved it");
});
