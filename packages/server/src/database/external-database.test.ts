import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { openDatabase } from "./open-database.ts";

/** As much of a PostgreSQL server as the check of a version needs; it answers every query with one row. */
class ScriptedServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  connections = 0;

  constructor(reply: (connection: number) => readonly Buffer[]) {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      this.connections += 1;
      const packets = reply(this.connections);
      let packet = 0;
      socket.on("error", () => undefined);
      socket.on("data", (data) => {
        if (data[0] !== TERMINATE && packet < packets.length) {
          socket.write(packets[packet]!);
          packet += 1;
        }
      });
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    // The server listens on a port, so its address is an object.
    const { port } = this.#server.address() as AddressInfo;
    return `postgresql://ada:very-secret@127.0.0.1:${port}/shop`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }
}

const TERMINATE = "X".charCodeAt(0);

function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32BE(body.length + 4);
  return Buffer.concat([Buffer.from(type), length, body]);
}

const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);
const int32 = (value: number): Buffer => Buffer.concat([int16(value >> 16), int16(value & 0xffff)]);
const READY = message("Z", Buffer.from("I"));
const WELCOME = Buffer.concat([message("R", int32(0)), READY]);

interface Column {
  readonly name: string;
  readonly type: number;
  readonly text: string;
}

function row(columns: readonly Column[]): Buffer {
  const described = columns.map(({ name, type }) =>
    Buffer.concat([Buffer.from(`${name}\0`), int32(0), int16(0), int32(type), int16(4), int32(-1), int16(0)]),
  );
  const values = columns.map(({ text }) => Buffer.concat([int32(text.length), Buffer.from(text)]));
  return Buffer.concat([
    message("T", Buffer.concat([int16(columns.length), ...described])),
    message("D", Buffer.concat([int16(columns.length), ...values])),
    message("C", Buffer.from("SELECT 1\0")),
    READY,
  ]);
}

function version(number: number, standby = false): Buffer {
  return row([
    { name: "number", type: 23, text: String(number) },
    { name: "name", type: 25, text: `${Math.floor(number / 10_000)}.${number % 10_000}` },
    { name: "standby", type: 16, text: standby ? "t" : "f" },
  ]);
}

function refusal(code: string, text: string): Buffer {
  return message("E", Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${text}\0\0`));
}

let server: ScriptedServer | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

async function open(reply: (connection: number) => readonly Buffer[]): Promise<unknown> {
  server = new ScriptedServer(reply);
  const url = await server.listen();
  return openDatabase({ url }).catch((error: unknown) => error);
}

describe("a database of somebody else", () => {
  it.each([150_000, 180_004])("is taken at version %i, and nothing is started", async (number) => {
    const database = await open(() => [WELCOME, version(number)]);
    expect(database).toMatchObject({
      kind: "external",
      pgConfig: { connectionString: expect.stringContaining("/shop") },
    });
  });

  it("is refused below version 15", async () => {
    expect(await open(() => [WELCOME, version(140_011)])).toMatchObject({
      code: "database_unavailable",
      extra: { reason: "too_old" },
      detail: expect.stringMatching(
        /leads to PostgreSQL 14\.11 \(127\.0\.0\.1:\d+, database shop\); Signalbox needs 15/,
      ),
    });
  });

  it("is refused when it is a standby", async () => {
    expect(await open(() => [WELCOME, version(180_000, true)])).toMatchObject({ extra: { reason: "read_only" } });
  });

  it("is waited for while it starts", async () => {
    const database = await open((connection) =>
      connection === 1 ? [refusal("57P03", "the database system is starting up")] : [WELCOME, version(160_000)],
    );
    expect(database).toMatchObject({ kind: "external" });
    expect(server?.connections).toBe(2);
  });

  it.each([
    ["28P01", "password authentication failed", "The password is wrong."],
    ["3D000", 'database "shop" does not exist', "That database does not exist. Create it first."],
    ["XX000", "something new", "The server refused"],
  ])("that answers %s is explained, without the password", async (code, text, words) => {
    const error = await open(() => [refusal(code, text)]);
    expect(error).toMatchObject({ code: "database_unavailable", detail: expect.stringContaining(words) });
    expect(String(error)).not.toContain("very-secret");
  });

  it("that does not listen is explained", async () => {
    server = new ScriptedServer(() => []);
    const url = await server.listen();
    await server.close();
    server = null;
    await expect(openDatabase({ url })).rejects.toThrow("Nothing listens there");
  });

  it.each(["mysql://x/y", "nonsense", "http://127.0.0.1"])("is not at %s", async (url) => {
    await expect(openDatabase({ url })).rejects.toThrow("is not an address of the form postgresql://");
  });
});
