import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import pg from "pg";
import { inspectDatabase } from "../../../packages/server/src/database/inspection.ts";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";

let database: ClonedDatabase;

beforeAll(async () => {
  database = await cloneDatabase();
});

afterAll(async () => {
  await database[Symbol.asyncDispose]();
});

async function ask(statement: string): Promise<Readonly<Record<string, unknown>>> {
  const client = new pg.Client(database.config);
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(statement);
    return rows[0] ?? {};
  } finally {
    await client.end();
  }
}

async function administer(...statements: readonly string[]): Promise<void> {
  for (const statement of statements) await ask(statement);
}

describe("a database of ours", () => {
  it("is as it is", async () => {
    // The tests' own server may well be run without it.
    const fsync = (await ask("show fsync")).fsync === "on";
    expect(await inspectDatabase(database.config)).toEqual({
      version: expect.stringMatching(/^18\./) as string,
      fsync,
      fullPageWrites: true,
      synchronousCommit: true,
      rolesReady: true,
      schemaReady: true,
      transactionPooler: false,
    });
  });

  it("is found out when its commits do not wait", async () => {
    const { database: name } = database.config;
    await administer(`alter database ${name} set synchronous_commit = off`);
    try {
      expect(await inspectDatabase(database.config)).toMatchObject({ synchronousCommit: false });
    } finally {
      await administer(`alter database ${name} reset synchronous_commit`);
    }
  });

  it("waits for its commits also where it does not wait for a standby", async () => {
    const { database: name } = database.config;
    await administer(`alter database ${name} set synchronous_commit = local`);
    try {
      expect((await inspectDatabase(database.config)).synchronousCommit).toBe(true);
    } finally {
      await administer(`alter database ${name} reset synchronous_commit`);
    }
  });
});

describe("a user", () => {
  it("without our roles, who may not create any, is told apart from one who has them", async () => {
    const user = `plain_${database.config.database}`;
    await administer(`create role ${user} login`);
    try {
      const config = { ...database.config, user };
      expect(await inspectDatabase(config)).toMatchObject({ rolesReady: false, schemaReady: true });
      await administer(`grant signalbox_owner, signalbox_app to ${user}`);
      expect((await inspectDatabase(config)).rolesReady, "one of three is missing").toBe(false);
      await administer(`grant signalbox_run to ${user}`);
      expect((await inspectDatabase(config)).rolesReady).toBe(true);
    } finally {
      await administer(`drop role ${user}`);
    }
  });

  it("who may create them needs none, but has to be able to make the schema", async () => {
    await using empty = await cloneDatabase("template0");
    const user = `maker_${empty.config.database}`;
    await administer(`create role ${user} login createrole`);
    try {
      const config = { ...empty.config, user };
      expect(await inspectDatabase(config)).toMatchObject({ rolesReady: true, schemaReady: false });
      await administer(`grant create on database ${empty.config.database} to ${user}`);
      expect(await inspectDatabase(config)).toMatchObject({ rolesReady: true, schemaReady: true });
      await administer(`revoke create on database ${empty.config.database} from ${user}`);
    } finally {
      await administer(`drop role ${user}`);
    }
  });
});

describe("a pooler in transaction mode", () => {
  it.each([1, 2, 8])("with %i connections to the server is found out", async (size) => {
    await using pooler = await openPooler(size);
    expect((await inspectDatabase(pooler.config)).transactionPooler).toBe(true);
  });
});

/**
 * A pooler as small as it can be: clients are let in at once, and each of their statements goes over whichever
 * connection to the server has been idle longest.
 */
async function openPooler(size: number): Promise<
  AsyncDisposable & {
    readonly config: pg.ClientConfig & { host: string; port: number; user: string; database: string };
  }
> {
  const servers = await Promise.all(Array.from({ length: size }, () => ServerConnection.open()));
  const idle = [...servers];
  const waiting: ((server: ServerConnection) => void)[] = [];
  const clients = new Set<Socket>();
  const borrow = async (): Promise<ServerConnection> => {
    const server = idle.shift();
    return server ?? new Promise((resolve) => waiting.push(resolve));
  };
  const giveBack = (server: ServerConnection): void => {
    const next = waiting.shift();
    if (next === undefined) idle.push(server);
    else next(server);
  };
  const relay = async (client: Socket, statement: Buffer): Promise<void> => {
    const server = await borrow();
    client.write(await server.ask(statement));
    giveBack(server);
  };
  const listener = createServer((client) => {
    clients.add(client);
    client.on("error", () => undefined);
    let started = false;
    client.on("data", (bytes: Buffer) => {
      if (!started) {
        started = true;
        client.write(WELCOME);
      } else if (bytes[0] === QUERY) {
        relay(client, bytes).catch(() => client.destroy());
      } else client.end();
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  const { user, database: name } = database.config;
  return {
    config: { host: "127.0.0.1", port, user, database: name },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.destroy();
      for (const server of servers) server.close();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

const QUERY = 0x51;
/** Authentication is fine, and: ready for a statement. */
const WELCOME = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49]);
const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

class ServerConnection {
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static async open(): Promise<ServerConnection> {
    const { host, port, user, database: name } = database.config;
    const socket = connect(`${host}/.s.PGSQL.${port}`);
    const connection = new ServerConnection(socket);
    const facts = Buffer.from(`user\0${user}\0database\0${name}\0\0`);
    const head = Buffer.alloc(8);
    head.writeInt32BE(facts.length + 8, 0);
    head.writeInt32BE(196_608, 4);
    await connection.ask(Buffer.concat([head, facts]));
    return connection;
  }

  /** Sends a message and reads up to where the server is ready again. */
  ask(message: Buffer): Promise<Buffer> {
    return new Promise((resolve) => {
      let answer = Buffer.alloc(0);
      const read = (bytes: Buffer): void => {
        answer = Buffer.concat([answer, bytes]);
        if (!answer.subarray(-READY.length).equals(READY)) return;
        this.#socket.off("data", read);
        resolve(answer);
      };
      this.#socket.on("data", read);
      this.#socket.write(message);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}
