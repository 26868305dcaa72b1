/** The way to a real PostgreSQL: what it refuses and how that is said, how a lost connection comes back. */
import assert from "node:assert/strict";
import { chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect as connectTo, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { connectPostgres } from "../../src/postgres/connect.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { durabilityOf, readDurability } from "../../src/postgres/durability.ts";
import { PlatformOwner } from "../../src/postgres/owner.ts";
import { Postgres, type PostgresOptions } from "../../src/postgres/postgres.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { lackOfPgBouncer, startPgBouncer } from "../pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;

describe("the way to PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  let folder: string;
  let base: string;
  const opened: Postgres[] = [];

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "svc-pg-"));
    server = await startPostgres((found as { bin: string }).bin);
    base = `127.0.0.1:${server.port}`;
  });
  after(async () => {
    for (const one of opened) await one.close();
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const connect = async (url: string, passwordFile?: string) => {
    const client = await connectPostgres({ url: parseDatabaseUrl(url), passwordFile });
    const { rows } = await client.query(
      "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS tls, current_setting('application_name') AS name",
    );
    await client.end();
    return rows[0] as { tls: boolean; name: string };
  };
  const problem = async (url: string, passwordFile?: string): Promise<SvcError> => {
    try {
      await connect(url, passwordFile);
    } catch (error) {
      assert.ok(error instanceof SvcError, String(error));
      assert.doesNotMatch(`${error.message} ${error.help} ${error.where}`, /hunter2/);
      assert.equal(error.message.split("\n").length, 1, "one sentence");
      return error;
    }
    return assert.fail(`${url} connected`);
  };
  const open = (changes: Partial<PostgresOptions> = {}, url = server.url) => {
    const access = { url: parseDatabaseUrl(url), passwordFile: undefined };
    opened.push(new Postgres({ access, connectionsMax: 3, ...changes }));
    return opened.at(-1)!;
  };
  const inServer = (name: string, text: string) => {
    const file = path.join(server.dataDir, name);
    writeFileSync(file, text, { mode: 0o600 });
    const { uid, gid } = statSync(server.dataDir);
    if (process.getuid!() === 0) chownSync(file, uid, gid);
  };

  test("a server notices within half a minute that it was cut off from a session; who wants it sooner has it sooner", async () => {
    const read = async () => {
      const client = await connectPostgres({ url: parseDatabaseUrl(server.url), passwordFile: undefined });
      const { rows } = await client.query("SELECT name, setting FROM pg_settings WHERE name LIKE 'tcp_keepalives_%'");
      await client.end();
      return Object.fromEntries(
        rows.map(({ name, setting }) => [name.slice("tcp_keepalives_".length), Number(setting)]),
      );
    };
    assert.deepEqual(await read(), { idle: 10, interval: 5, count: 3 });
    await server.sql("ALTER ROLE svc SET tcp_keepalives_idle = 4");
    try {
      assert.deepEqual(await read(), { idle: 4, interval: 5, count: 3 });
    } finally {
      await server.sql("ALTER ROLE svc RESET tcp_keepalives_idle");
    }
  });

  test("tells the server who connects", async () => {
    assert.deepEqual(await connect(`${server.url}?application_name=blue`), { tls: false, name: "blue" });
  });

  test("says that nothing listens, which host is unknown, which database is missing", async () => {
    const port = await freePort();
    const away = await problem(`postgres://svc:hunter2@127.0.0.1:${port}/svc`);
    assert.equal(away.code, "DATABASE_AWAY");
    assert.equal(away.message, `127.0.0.1:${port} cannot be reached: nothing listens there.`);
    const missing = await problem(`postgres://svc@${base}/nothing`);
    assert.deepEqual([missing.code, missing.message], ["DATABASE_REFUSED", `${base} has no database "nothing".`]);
    const nobody = await problem(`postgres://nobody_known@${base}/svc`);
    assert.equal(nobody.code, "DATABASE_REFUSED");
    assert.match(nobody.message, /role "nobody_known" does not exist/);
  });

  test("says that TLS is not offered where it is asked for, and does without where it is only preferred", async () => {
    const refused = await problem(`${server.url}?sslmode=require`);
    assert.equal(refused.message, `${base} does not offer TLS, which sslmode=require asks for.`);
    assert.equal((await connect(`${server.url}?sslmode=prefer`)).tls, false);
  });

  test("gives up a server that takes the connection and says nothing", async (t) => {
    const sockets: Socket[] = [];
    const silent: Server = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const { port } = silent.address() as { port: number };
    const away = await problem(`postgres://svc@127.0.0.1:${port}/svc?sslmode=disable&connect_timeout=1`);
    assert.equal(away.message, `127.0.0.1:${port} cannot be reached: it did not answer in time.`);
  });

  test("gives up a server that stands still once it has greeted", async (t) => {
    const sockets: Socket[] = [];
    const still: Server = createServer((client) => {
      const onward = connectTo(server.port, "127.0.0.1");
      sockets.push(client, onward);
      for (const socket of [client, onward]) socket.on("error", () => {});
      onward.pipe(client);
      // After its first message, which names user and database, nothing that it says arrives.
      client.once("data", (data) => onward.write(data));
    });
    await new Promise<void>((resolve) => still.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      still.close();
    });
    const { port } = still.address() as { port: number };
    const away = await problem(`postgres://svc@127.0.0.1:${port}/svc?sslmode=disable&connect_timeout=1`);
    assert.equal(away.code, "DATABASE_AWAY");
    assert.match(away.message, /did not answer .*1 s/);
  });

  test("is refused words that are no PostgreSQL's", async (t) => {
    const other: Server = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    for (const mode of ["disable", "prefer", "require"]) {
      await problem(`postgres://svc:hunter2@127.0.0.1:${port}/svc?sslmode=${mode}&connect_timeout=2`);
    }
  });

  test("finds the host that takes writes", async () => {
    await server.sql("CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on");
    const readOnly = await problem(`postgres://reader@${base}/svc`);
    assert.deepEqual([readOnly.code, readOnly.message], ["DATABASE_AWAY", `${base} is read-only.`]);
    const nothing = await freePort();
    const hosts = `127.0.0.1:${nothing},${base}`;
    await connect(`postgres://svc@${hosts}/svc?target_session_attrs=read-write`);
  });

  test("says that the password is wrong or missing, and reads it from its file at every connection", async (t) => {
    const rules = readFileSync(path.join(server.dataDir, "pg_hba.conf"), "utf8");
    await server.sql("CREATE ROLE ada LOGIN PASSWORD 'hunter2'");
    inServer("pg_hba.conf", `host all ada all scram-sha-256\n${rules}`);
    await server.sql("SELECT pg_reload_conf()");
    t.after(() => inServer("pg_hba.conf", rules));
    const file = path.join(folder, "password");
    writeFileSync(file, "hunter2\n");
    await connect(`postgres://ada:hunter2@${base}/svc`);
    await connect(`postgres://ada@${base}/svc`, file);
    writeFileSync(file, "hunter22\n");
    const wrong = await problem(`postgres://ada@${base}/svc`, file);
    assert.equal(wrong.message, `${base} does not accept the password of the user "ada".`);
    const none = await problem(`postgres://ada@${base}/svc`);
    assert.match(none.message, /asks for the password of the user "ada", and none is given/);
    const gone = await problem(`postgres://ada@${base}/svc`, path.join(folder, "nothing"));
    assert.match(gone.message, /cannot be read/);
  });

  test("trusts a server by its authority's certificate, and with verify-full by its name", async (t) => {
    const { key, cert } = selfSignedCertificate("localhost");
    inServer("server.key", key);
    inServer("server.crt", cert);
    await server.sql("ALTER SYSTEM SET ssl = on");
    await server.sql("SELECT pg_reload_conf()");
    t.after(async () => {
      await server.sql("ALTER SYSTEM SET ssl = off");
      await server.sql("SELECT pg_reload_conf()");
    });
    const ca = path.join(folder, "ca.pem");
    writeFileSync(ca, cert);
    const named = `postgres://svc@localhost:${server.port}/svc`;
    for (const query of ["", "?sslmode=require", `?sslmode=verify-ca&sslrootcert=${ca}`]) {
      assert.equal((await connect(server.url + query)).tls, true, query);
    }
    assert.equal((await connect(`${named}?sslmode=verify-full&sslrootcert=${ca}`)).tls, true);
    assert.equal((await connect(`${server.url}?sslmode=disable`)).tls, false);
    const unknown = await problem(`${server.url}?sslmode=verify-ca`);
    assert.match(unknown.message, /certificate of .* is not trusted: self-signed certificate/);
    const otherName = await problem(`${server.url}?sslmode=verify-full&sslrootcert=${ca}`);
    assert.match(otherName.message, /is not trusted: .*127\.0\.0\.1/);
    const other = path.join(folder, "other.pem");
    writeFileSync(other, selfSignedCertificate("localhost").cert);
    assert.match((await problem(`${named}?sslmode=verify-full&sslrootcert=${other}`)).message, /is not trusted/);
    assert.match((await problem(`${named}?sslmode=verify-full&sslrootcert=/nothing.pem`)).message, /cannot be read/);
  });

  test("never holds more connections than it may: who comes later waits for one, and not for ever", async () => {
    const hasty = open({ waitMaxMs: 200 });
    const lent = await Promise.all([1, 2, 3].map(() => hasty.acquire()));
    await assert.rejects(hasty.acquire(), { code: "DATABASE_AWAY" });
    for (const one of lent) one.release();
    await hasty.close();
    const postgres = open();
    const taken = await Promise.all([1, 2, 3].map(() => postgres.acquire()));
    const next = postgres.acquire();
    taken[0]!.release();
    (await next).release();
    for (const one of taken.slice(1)) one.release();
    const all = await Promise.all(Array.from({ length: 50 }, (_, n) => postgres.query("SELECT $1::int AS n", [n])));
    assert.deepEqual(
      all.map(({ rows }) => rows[0].n),
      all.map((_, n) => n),
    );
    // Those of the first may still be ending.
    await eventually(async () => {
      const held = await server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'svc'");
      assert.ok(Number(held) <= 3, held);
    });
    await postgres.close();
    await assert.rejects(postgres.acquire(), { code: "SHUTTING_DOWN" });
  });

  test("where the server gives fewer connections than the platform may open, those that it has are used in turns", async () => {
    await server.sql("CREATE ROLE few LOGIN CONNECTION LIMIT 2");
    const url = new URL(server.url);
    url.username = "few";
    const told: unknown[] = [];
    const access = { url: parseDatabaseUrl(url.href), passwordFile: undefined };
    const both = [60_000, 200].map(
      (waitMaxMs) => new Postgres({ access, connectionsMax: 8, waitMaxMs, told: (away) => told.push(away) }),
    );
    const [postgres, late] = [both[0]!, both[1]!];
    const all = await Promise.all(Array.from({ length: 40 }, () => postgres.query("SELECT pg_sleep(0.01), 1 AS n")));
    assert.deepEqual([all.length, told], [40, []]);
    await Promise.all([1, 2].map(() => postgres.query("SELECT pg_sleep(0.1)")));
    await assert.rejects(late.acquire(), {
      code: "DATABASE_AWAY",
      message: /has no connection free/,
      help: /SVC_DATABASE_CONNECTIONS_MAX/,
    });
    assert.equal(told.length, 1);
    await postgres.close();
    await eventually(() => late.query("SELECT 1"));
    assert.deepEqual(told.slice(1), [undefined]);
    await late.close();
  });

  test("a connection whose transaction did not end is not lent again", async () => {
    const postgres = open({ connectionsMax: 1 });
    const left = await postgres.acquire();
    await left.query("begin");
    await left.query("CREATE TABLE half (n int)");
    left.release();
    const { rows } = await postgres.query("SELECT to_regclass('half') AS there");
    assert.equal(rows[0].there, null);
    await postgres.close();
  });

  test("a statement that gets no answer ends, and its connection with it", async () => {
    const postgres = open({ statementMaxMs: 200 });
    await assert.rejects(postgres.query("SELECT pg_sleep(600)"), { code: "DATABASE_AWAY" });
    // So short a time may pass on a busy machine without a fault.
    await eventually(async () => assert.equal((await postgres.query("SELECT 1 AS n")).rows[0].n, 1));
    await postgres.close();
  });

  test("a server that crashes is away in words, and work goes on by itself when it is back", async () => {
    const told: (string | undefined)[] = [];
    const postgres = open({ told: (away) => told.push(away?.code), waitMaxMs: 60_000 });
    const dedicated = await postgres.connect();
    const interrupted = postgres.query("SELECT pg_sleep(60)");
    interrupted.catch(() => {});
    const running = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'";
    await eventually(async () => assert.equal(await server.sql(running), "1"));
    await Promise.all([assert.rejects(interrupted, { code: "DATABASE_AWAY" }), server.kill("SIGQUIT")]);
    await assert.rejects(dedicated.query("SELECT 1"));
    const waits = postgres.query("SELECT 2 AS n");
    await assert.rejects(postgres.connect({ waitMaxMs: 100 }), { code: "DATABASE_AWAY" });
    assert.equal(postgres.away?.code, "DATABASE_AWAY");
    await server.start();
    assert.equal((await waits).rows[0].n, 2);
    assert.equal(postgres.away, undefined);
    assert.deepEqual(told, ["DATABASE_AWAY", undefined]);
    await postgres.close();
  });

  test("one platform has a database: another waits until it stands still, and the first then hears that it was lost", async () => {
    const waits: string[] = [];
    const lost: string[] = [];
    const postgres = [open(), open()];
    const [first, second] = postgres.map(
      (one, n) =>
        new PlatformOwner(one, {
          home: `${n}`,
          place: `machine ${n}`,
          waits: (place) => waits.push(place),
          lost: (error) => lost.push(error.message),
          silentMs: 1_500,
        }),
    ) as [PlatformOwner, PlatformOwner];
    await Promise.all(postgres.map((one) => one.query("SELECT 1")));
    await first.take();
    const taken = second.take();
    await eventually(() => assert.deepEqual(waits, ["machine 0"]));
    // As if it stood still: no beat of it arrives.
    await server.sql(
      `CREATE FUNCTION still() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN CASE NEW.home WHEN ''0'' THEN NULL ELSE NEW END; END';
       CREATE TRIGGER still BEFORE UPDATE ON platform_owner FOR EACH ROW EXECUTE FUNCTION still()`,
      "svc",
    );
    assert.equal(first.isSure, true);
    await taken;
    assert.deepEqual([first.isSure, second.isSure], [false, true], "who was taken over from knows it without a word");
    await eventually(() => assert.deepEqual(lost, ["Another platform has taken the database: machine 1."]));
    await first.close();
    assert.equal(await server.sql("SELECT place FROM platform_owner", "svc"), "machine 1");
    await second.close();
    await Promise.all(postgres.map((one) => one.close()));
  });

  test("says what a commit is worth", async () => {
    const postgres = open();
    assert.match((await readDurability(postgres)).words, /^fsync is off/);
    assert.equal((await readDurability(postgres)).isUnsafe, true);
    await postgres.close();
    const settings = { fsync: "on", synchronous_commit: "on", synchronous_standby_names: "" };
    const cases: readonly [Partial<typeof settings>, RegExp][] = [
      [{}, /a failover to a standby may lose the last moments \(no synchronous standby\)$/],
      [{ synchronous_commit: "off", synchronous_standby_names: "*" }, /^synchronous_commit is off/],
      [{ synchronous_commit: "local", synchronous_standby_names: "*" }, /may lose .*\(synchronous_commit = local\)$/],
      [{ synchronous_commit: "remote_write", synchronous_standby_names: "*" }, /handed to the system of a synchronous/],
      [{ synchronous_standby_names: "FIRST 1 (a, b)" }, /on the disk of .* \(FIRST 1 \(a, b\)\): .* loses nothing$/],
    ];
    for (const [changes, words] of cases) assert.match(durabilityOf({ ...settings, ...changes }).words, words);
  });

  test("refuses a server that is too old in words, and takes none of several that is", async (t) => {
    const real = await server.sql("SHOW server_version_num");
    const old = createServer((client) => {
      const there = connectTo(server.port, "127.0.0.1");
      for (const socket of [client, there])
        socket.on("error", () => {}).on("close", () => [client, there].map((s) => s.destroy()));
      client.on("data", (data) => there.write(data));
      // What it answers is as long as before, with another number in it.
      there.on("data", (data) => client.write(data.toString("latin1").replaceAll(real, "130021"), "latin1"));
    });
    await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", resolve));
    t.after(() => old.close());
    const { port } = old.address() as { port: number };
    const error = await problem(`postgres://svc@127.0.0.1:${port}/svc`);
    assert.equal(error.code, "DATABASE_REFUSED");
    assert.match(error.message, /^127\.0\.0\.1:\d+ is PostgreSQL 13; svc needs 14 or newer\.$/);
    assert.deepEqual((await connect(`postgres://svc@127.0.0.1:${port},${base}/svc`)).name, "svc");
  });

  test("a commit whose wait for the standby was cancelled is not taken for done, and nothing is stuck after it", async (t) => {
    const postgres = open({}, await server.database("unconfirmed"));
    const set = async (names: string) => {
      await server.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
      await server.sql("SELECT pg_reload_conf()");
    };
    await server.sql("ALTER DATABASE unconfirmed SET synchronous_commit = on");
    t.after(() => set(""));
    await set("nobody");
    const written = assert.rejects(postgres.query("CREATE TABLE there (n int)"), {
      code: "DATABASE_AWAY",
      message: /did not say that its standby has/,
    });
    await eventually(async () => {
      const waits = "FROM pg_stat_activity WHERE datname = 'unconfirmed' AND wait_event = 'SyncRep'";
      assert.equal(await server.sql(`SELECT pg_cancel_backend(pid) ${waits}`), "t");
    });
    await written;
    assert.equal((await postgres.query("SELECT count(*) AS n FROM there")).rows[0].n, 0);
    await set("");
    await postgres.query("DROP TABLE there");
    await postgres.close();
  });

  test("when one connection was ended, those that are left show that the database is there", async () => {
    const told: (string | undefined)[] = [];
    const postgres = open({ told: (away) => told.push(away?.code) });
    const [first, second] = [await postgres.acquire(), await postgres.acquire()];
    const { rows } = await first.query("SELECT pg_backend_pid() AS pid");
    const sleeps = assert.rejects(first.query("SELECT pg_sleep(60)"), { code: "DATABASE_AWAY" });
    await server.sql(`SELECT pg_terminate_backend(${rows[0].pid})`);
    await sleeps;
    first.release();
    await eventually(async () => {
      await second.query("SELECT 1");
      assert.equal(postgres.away, undefined);
    });
    assert.deepEqual(told, ["DATABASE_AWAY", undefined]);
    second.release();
    await postgres.close();
  });

  test("works through PgBouncer in transaction mode", async (t) => {
    const missing = await lackOfPgBouncer();
    if (missing !== undefined) return t.skip(missing);
    const bouncer = await startPgBouncer(server);
    t.after(() => bouncer.stop());
    const postgres = open({ connectionsMax: 8 }, `postgres://svc@127.0.0.1:${bouncer.port}/svc`);
    const all = await Promise.all(Array.from({ length: 40 }, (_, n) => postgres.query("SELECT $1::bigint AS n", [n])));
    assert.deepEqual(
      all.map(({ rows }) => rows[0].n),
      all.map((_, n) => n),
    );
    await postgres.close();
    await bouncer.stop();
    await assert.rejects(open({ waitMaxMs: 0 }, `postgres://svc@127.0.0.1:${bouncer.port}/svc`).query("SELECT 1"), {
      code: "DATABASE_AWAY",
    });
  });
});
