/** Two platform processes on one embedded data directory: the database is started once, used by both, stopped by the last. */
import { afterEach, expect, test } from "vitest";
import { issueKey, platformFacts, serve } from "../../setup/real-processes.ts";

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

const ROLES = { role: "api" };

async function conversationsAt(url: string, key: string): Promise<unknown> {
  const response = await fetch(`${url}/v1/conversations`, { headers: { authorization: `Bearer ${key}` } });
  return [response.status, await response.json()];
}

test(
  "two processes that begin at once share the database, and it outlives the one that leaves first",
  { timeout: 180_000 },
  async () => {
    // No address of a database: it lies in the data directory.
    const facts = stack.use(platformFacts({ databaseUrl: "", simUrl: "http://127.0.0.1:9" }));
    const served = await Promise.all([serve(facts, ROLES), serve(facts, ROLES)]);
    for (const { process } of served) stack.use(process);
    const [first, second] = served;
    const key = await issueKey(facts);
    const nothing = [200, { data: [], nextCursor: null }];
    expect(await conversationsAt(first.url, key)).toEqual(nothing);
    expect(await conversationsAt(second.url, key)).toEqual(nothing);

    await first.process.kill("SIGTERM");
    expect(await conversationsAt(second.url, key)).toEqual(nothing);
    const third = await serve(facts, ROLES);
    stack.use(third.process);
    // Whoever started the database dies without a word; the others go on with it.
    await second.process.kill("SIGKILL");
    expect(await conversationsAt(third.url, key)).toEqual(nothing);
  },
);

test(
  "a second process that asks for the port of the first says so in one sentence, and harms nobody",
  { timeout: 180_000 },
  async () => {
    const facts = stack.use(platformFacts({ databaseUrl: "", simUrl: "http://127.0.0.1:9" }));
    const first = await serve(facts, ROLES);
    stack.use(first.process);
    const port = Number(new URL(first.url).port);
    const refusal = await serve(facts, { ...ROLES, port }).catch((thrown: unknown) => String(thrown));
    expect(refusal).toContain(`Port ${port} is in use.`);
    const key = await issueKey(facts);
    expect(await conversationsAt(first.url, key)).toEqual([200, { data: [], nextCursor: null }]);
  },
);
