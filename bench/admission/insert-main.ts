/** What admission is held against: Fastify, a pool of as many connections, and one row in one transaction. */
import { once } from "node:events";
import Fastify from "fastify";
import pg from "pg";
import { serveOrders } from "../gates/measured-process.ts";

const pool = new pg.Pool({
  connectionString: process.env.BENCH_DATABASE_URL,
  max: Number(process.env.BENCH_CONNECTIONS),
});
await pool.query(
  `create table if not exists public.bench_message (
     id bigint generated always as identity primary key, conversation text, body jsonb, at timestamptz default now())`,
);
const app = Fastify();
app.post("/v1/conversations/:conversation/messages", async (request, reply) => {
  // The route's own form.
  const { conversation } = request.params as { readonly conversation: string };
  const client = await pool.connect();
  try {
    await client.query("begin");
    const { rows } = await client.query({
      name: "insert",
      text: "insert into public.bench_message (conversation, body) values ($1, $2) returning id",
      values: [conversation, JSON.stringify(request.body)],
    });
    await client.query("commit");
    return await reply.code(202).send(rows[0]);
  } finally {
    client.release();
  }
});
const url = await app.listen({ host: "127.0.0.1", port: 0 });
await serveOrders({ url }, () => Promise.reject(new Error("there are no orders for it")));
app.server.closeAllConnections();
const closed = once(app.server, "close");
app.server.close();
await closed;
await pool.end();
