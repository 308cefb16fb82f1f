/** Requests to addresses that a tenant gave, over real sockets: what was judged is what is connected to. */
import { request } from "node:http";
import type { LookupAddress } from "node:dns";
import { afterEach, expect, it } from "vitest";
import { EgressPolicy } from "../../../packages/server/src/egress/egress-policy.ts";
import { guardedLookup } from "../../../packages/server/src/egress/guarded-lookup.ts";
import {
  AnswerTimeout,
  guardedSender,
  type GuardedAnswer,
} from "../../../packages/server/src/egress/guarded-request.ts";
import { answerJson, serveHttp, type ScriptedAnswer, type ScriptedHttp } from "../../setup/scripted-http.ts";

const servers: ScriptedHttp[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server[Symbol.asyncDispose]()));
});

async function serve(...answers: readonly ScriptedAnswer[]): Promise<ScriptedHttp> {
  const server = await serveHttp(answers);
  servers.push(server);
  return server;
}

const loopback = new EgressPolicy({ names: [], networks: [{ address: "127.0.0.1", prefix: 32 }] });

function send(
  url: string,
  policy: EgressPolicy,
  options: { readonly timeoutMs?: number } = {},
): Promise<GuardedAnswer> {
  return guardedSender({ policy })({
    url,
    method: "POST",
    headers: { "content-type": "application/json" },
    body: `{"text":"é"}`,
    timeoutMs: options.timeoutMs ?? 5_000,
    bodyBytes: 16,
    signal: new AbortController().signal,
  });
}

it("takes the head of an answer and the first bytes of its body", async () => {
  const server = await serve((response) => {
    response.writeHead(201, { "retry-after": "3" }).write("0123456789abcdé and more");
    // The rest never comes; nobody waits for it.
  });
  const answer = await send(`${server.url}/hooks?a=1`, loopback);
  expect(answer).toMatchObject({ status: 201, body: "0123456789abcdé", headers: { "retry-after": "3" } });
  expect(server.asked).toMatchObject([{ method: "POST", url: "/hooks?a=1", body: `{"text":"é"}` }]);
});

it("calls nothing that the operator has not allowed", async () => {
  const server = await serve(answerJson(200, {}));
  await expect(send(server.url, new EgressPolicy())).rejects.toMatchObject({ code: "address_refused" });
  await expect(send(server.url.replace("127.0.0.1", "0x7f.1"), new EgressPolicy())).rejects.toMatchObject({
    code: "address_refused",
  });
  expect(server.asked).toEqual([]);
});

it("goes where it was sent and nowhere that an answer points to", async () => {
  const elsewhere = await serve(answerJson(200, {}));
  const server = await serve(answerJson(307, {}, { location: elsewhere.url }));
  expect((await send(server.url, loopback)).status).toBe(307);
  expect(elsewhere.asked).toEqual([]);
});

it("waits for the head of an answer no longer than it may", async () => {
  const server = await serve(() => undefined);
  await expect(send(server.url, loopback, { timeoutMs: 100 })).rejects.toBeInstanceOf(AnswerTimeout);
});

it("gives a socket's own error where nobody listens", async () => {
  const server = await serve(answerJson(200, {}));
  const { url } = server;
  await servers.pop()?.[Symbol.asyncDispose]();
  await expect(send(url, loopback)).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

it("connects to the very address it has judged, however the name answers the next moment", async () => {
  const server = await serve(answerJson(200, {}));
  const port = Number(new URL(server.url).port);
  const answers: LookupAddress[] = [
    { address: "127.0.0.1", family: 4 },
    { address: "127.0.0.2", family: 4 },
  ];
  let count = 0;
  const lookup = guardedLookup(loopback, (_name, told) => told(null, answers.slice(count, ++count)));
  const attempt = () =>
    new Promise<string>((resolve) => {
      const outgoing = request({ host: "rebind.example.com", port, lookup, agent: false, method: "POST" });
      outgoing.once("response", (response) => {
        resolve(`${response.statusCode} from ${response.socket.remoteAddress}`);
        outgoing.destroy();
      });
      outgoing.once("error", (error) => resolve(error.message));
      outgoing.end();
    });
  expect(await attempt()).toBe("200 from 127.0.0.1");
  expect(count).toBe(1);
  expect(await attempt()).toMatch(/not a public address \(loopback\)/);
  expect(server.asked).toHaveLength(1);
});
