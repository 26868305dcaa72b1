/** The store on a real PostgreSQL: what every store does, and what holds when several are open on one database. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { ensureFirstKey } from "../../src/control-plane/keys.ts";
import { registryLabel } from "../../src/domain/registry.ts";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import { createKeyChecker } from "../../src/store/key-check.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import { sealPostgresAnew } from "../../src/store/seal-anew.ts";
import type { Store, StoreChange } from "../../src/store/store.ts";
import { newApp, newEndpoint, type StoreUnderTest, storeConformance } from "../conformance/store.ts";
import { eventually } from "../eventually.ts";
import { lackOfPgBouncer, startPgBouncer } from "../pgbouncer.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const serverOf = (settings = {}) => startPostgres((found as { bin: string }).bin, { settings });
const NOW = 1_700_000_000_000;

interface Opened {
  readonly store: Store;
  readonly postgres: Postgres;
  close(): Promise<void>;
}

async function open(url: string): Promise<Opened> {
  const access = { url: parseDatabaseUrl(url), passwordFile: undefined };
  const postgres = new Postgres({ access, connectionsMax: 4 });
  const store = await openPostgresStore(postgres).catch(async (error) => {
    await postgres.close();
    throw error;
  });
  const close = async () => {
    await store.close();
    await postgres.close();
  };
  return { store, postgres, close };
}

async function openUnderTest(server: PostgresServer, url: string): Promise<StoreUnderTest> {
  let opened = await open(url);
  const under = {
    store: opened.store,
    async reopen() {
      await opened.close();
      opened = await open(url);
      under.store = opened.store;
    },
    async close() {
      await opened.close();
      await server.stop();
    },
  };
  return under;
}

if (skip === false) {
  storeConformance("PostgreSQL", async () => {
    const server = await serverOf();
    return openUnderTest(server, server.url);
  });
}

describe("stores of several platforms on one PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  let stores: Opened[];

  before(async () => {
    server = await serverOf();
    // At the same time: each finds an empty database.
    stores = await Promise.all([open(server.url), open(server.url)]);
  });
  after(async () => {
    for (const one of stores ?? []) await one.close();
    await server?.stop();
  });
  const [first, second] = [() => stores[0]!.store, () => stores[1]!.store];

  test("each hears what the other changed, in the order of the commits, and its own changes once", async (t) => {
    const heard: StoreChange[] = [];
    const own: StoreChange[] = [];
    let listens = true;
    t.after(() => {
      listens = false;
    });
    second().onChange((change) => listens && heard.push(change));
    first().onChange((change) => listens && own.push(change));
    const endpoint = newEndpoint(null);
    await first().endpoints.insert(endpoint);
    await first().endpoints.update(endpoint.id, { reason: "no room" });
    assert.deepEqual(
      own.map((change) => change.table === "endpoints" && change.endpoint?.reason),
      ["", "no room"],
    );
    const last = { table: "endpoints", id: endpoint.id, endpoint: { ...endpoint, reason: "no room" } } as const;
    await eventually(() => assert.deepEqual(heard.at(-1), last));
    await second().endpoints.delete(endpoint.id);
    assert.deepEqual(heard.at(-1), { ...last, endpoint: undefined });
    await eventually(() => assert.deepEqual(own.at(-1), { ...last, endpoint: undefined }));
    assert.deepEqual([own.length, heard.length], [3, 3]);
  });

  test("read, check and write of one is never between those of another", async () => {
    const endpoint = newEndpoint(null, { scalerValue: 0 });
    await first().endpoints.insert(endpoint);
    const add = (store: Store) =>
      store.transaction(async (inner) => {
        const now = (await inner.endpoints.find(endpoint.id))!.scalerValue;
        await inner.endpoints.update(endpoint.id, { scalerValue: now + 1 });
      });
    await Promise.all(Array.from({ length: 30 }, (_, n) => add(n % 2 === 0 ? first() : second())));
    assert.equal((await first().endpoints.find(endpoint.id))?.scalerValue, 30);
  });

  test("what is sealed with an older key is sealed anew, whoever writes meanwhile", async () => {
    const [one, two] = [randomBytes(SEAL_KEY_BYTES), randomBytes(SEAL_KEY_BYTES)];
    const [old, both] = [new SealedText(one), new SealedText(two, one)];
    const id = (n: number) => `auth-${n}`;
    const save = (store: Store, n: number, seal: SealedText) =>
      store.registryAuths.save({
        id: id(n),
        name: id(n),
        sealed: seal.seal("login", registryLabel(id(n))),
        createdAt: NOW,
        updatedAt: NOW,
      });
    for (let n = 0; n < 20; n++) await save(first(), n, old);
    const { postgres } = stores[0]!;
    const writes = Array.from({ length: 20 }, (_, n) => save(second(), n, both));
    const [counts] = await Promise.all([sealPostgresAnew(postgres, both), ...writes]);
    assert.equal(counts!.unreadable, 0);
    for (const { id: name, sealed } of await first().registryAuths.list()) {
      assert.equal(new SealedText(two).open(sealed, registryLabel(name)), "login");
      await first().registryAuths.delete(name);
    }
    await save(first(), 0, new SealedText(randomBytes(SEAL_KEY_BYTES)));
    assert.deepEqual(await sealPostgresAnew(postgres, both), { renewed: 0, unreadable: 1 });
    await first().registryAuths.delete(id(0));
  });

  test("single writes and transactions of both at once end, whatever rows they share", async () => {
    const all = Array.from({ length: 4 }, () => newEndpoint(null, { scalerValue: 0 }));
    for (const endpoint of all) await first().endpoints.insert(endpoint);
    const writes = Array.from({ length: 60 }, (_, n) => {
      const store = n % 2 === 0 ? first() : second();
      const some = n % 3 === 0 ? [...all].reverse() : all;
      if (n % 4 === 0) return store.endpoints.update(some[0]!.id, { scalerValue: n });
      return store.transaction(async (inner) => {
        for (const { id } of some) await inner.endpoints.update(id, { scalerValue: n });
      });
    });
    await Promise.all(writes);
  });

  test("one first key is made, whoever starts at the same time", async () => {
    const made = await Promise.all([ensureFirstKey(first(), () => NOW), ensureFirstKey(second(), () => NOW)]);
    assert.equal(made.filter((secret) => secret !== undefined).length, 1);
    const secret = made.find((one) => one !== undefined)!;
    const [here, there] = [createKeyChecker(first(), () => NOW), createKeyChecker(second(), () => NOW)];
    assert.equal((await here.check(secret))?.kind, "key");
    assert.equal((await there.check(secret))?.kind, "key");
    const [key] = await first().keys.list();
    await first().keys.delete(key!.id);
    assert.equal(await here.check(secret), undefined, "revoked where it was revoked: at once");
    await eventually(async () => assert.equal(await there.check(secret), undefined));
  });

  test("a join token that lets one machine in lets one in, not one for each platform", async () => {
    const host = (name: string) => ({
      ...{ id: name, name, secretHash: name, labels: [], arch: "x64", version: "1", driver: "process" },
      ...{ sharedVolumes: false, draining: false, pod: "", holder: "", joinedAt: NOW, lastSeenAt: NOW },
    });
    for (let round = 0; round < 5; round++) {
      const token = `token-${round}`;
      const times = { expiresAt: null, createdAt: NOW, usedAt: null, revokedAt: null };
      await first().hosts.createToken({
        id: token,
        tokenHash: token,
        name: "",
        reusable: false,
        createdBy: "",
        ...times,
      });
      const joins = [first(), second()].map((store, n) => store.hosts.join(token, NOW, host(`h-${round}-${n}`)));
      const refusals = (await Promise.all(joins)).filter((joined) => typeof joined === "string");
      assert.deepEqual(refusals, ["used"]);
    }
  });

  test("nothing is written outside the order of writers: every table of the store has its trigger", async () => {
    // Where each row is changed by one statement alone: nothing is read, checked and written there.
    const without = await server.sql(
      `SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name NOT LIKE 'kysely_%'
         AND table_name NOT IN ('changes', 'log_chunks', 'device_logins', 'device_guesses') EXCEPT SELECT event_object_table FROM information_schema.triggers WHERE trigger_name = 'one_writer'`,
      "svc",
    );
    assert.equal(without, "");
  });

  test("texts that only SQLite takes are stored all the same, and order is that of their bytes", async () => {
    const names = ["Zebra", "apple", "Äpfel", "_x"];
    for (const name of names) await first().apps.insert({ ...newApp(), name });
    const listed = (await first().apps.list()).map(({ name }) => name).filter((name) => names.includes(name));
    assert.deepEqual(listed, ["Zebra", "_x", "apple", "Äpfel"]);
    const odd = newEndpoint(null, { reason: "a\0b \ud800 \u{1f600} '; drop table apps; --" });
    await first().endpoints.insert(odd);
    assert.equal((await first().endpoints.find(odd.id))?.reason, "a\ufffdb \ufffd \u{1f600} '; drop table apps; --");
    await assert.rejects(first().apps.insert({ ...newApp(), name: "apple" }), { code: "CONFLICT" });
  });

  test("a server that goes away is said to be, changes are heard when it is back, and nothing half is left", async () => {
    const heard: StoreChange[] = [];
    second().onChange((change) => heard.push(change));
    const endpoint = newEndpoint(null);
    const half = first().transaction(async (inner) => {
      await inner.endpoints.insert(endpoint);
      await server.kill("SIGQUIT");
      await inner.endpoints.update(endpoint.id, { reason: "x" });
    });
    await assert.rejects(half, { code: "DATABASE_AWAY" });
    await eventually(() => assert.equal(stores[0]!.postgres.away?.code, "DATABASE_AWAY"));
    await server.start();
    assert.equal(await first().endpoints.find(endpoint.id), undefined);
    await first().endpoints.insert(endpoint);
    await eventually(() => assert.deepEqual(heard.at(-1), { table: "endpoints", id: endpoint.id, endpoint }));
  });

  test("tables of a newer version are refused before anything in them is changed", async () => {
    const url = await server.database("newer");
    await (await open(url)).close();
    await server.sql("INSERT INTO kysely_migration VALUES ('9999-later', 'now')", "newer");
    await assert.rejects(open(url), (error: Error & { code?: string }) => {
      assert.equal(error.code, "DATABASE_REFUSED");
      return /newer svc/.test(error.message);
    });
  });

  test("a user who may not make tables is told so, and what to grant", async () => {
    const url = await server.database("closed");
    await server.sql("REVOKE ALL ON SCHEMA public FROM PUBLIC; ALTER SCHEMA public OWNER TO postgres", "closed");
    await assert.rejects(open(url), (error: Error & { code?: string; help?: string }) => {
      assert.equal(error.code, "DATABASE_REFUSED", String(error));
      return /may not create or use tables/.test(error.message) && /GRANT/.test(error.help!);
    });
  });

  test("PgBouncer in transaction mode stands between without a difference", async (t) => {
    const missing = await lackOfPgBouncer();
    if (missing !== undefined) return t.skip(missing);
    await server.database("bounced");
    const bouncer = await startPgBouncer(server);
    const both: Opened[] = [];
    t.after(async () => {
      for (const one of both) await one.close();
      await bouncer.stop();
    });
    const url = `postgres://svc@127.0.0.1:${bouncer.port}/bounced`;
    both.push(await open(url), await open(url));
    const endpoint = newEndpoint(null, { scalerValue: 0 });
    await both[0]!.store.endpoints.insert(endpoint);
    const add = ({ store }: Opened) =>
      store.transaction(async (inner) => {
        const now = (await inner.endpoints.find(endpoint.id))!.scalerValue;
        await inner.endpoints.update(endpoint.id, { scalerValue: now + 1 });
      });
    await Promise.all(Array.from({ length: 20 }, (_, n) => add(both[n % 2]!)));
    assert.equal((await both[1]!.store.endpoints.find(endpoint.id))?.scalerValue, 20);
  });
});
