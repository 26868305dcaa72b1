/** Logins that wait, in memory and as rows of PostgreSQL. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { DEVICE_GRANTS_PER_ADDRESS_MAX, DEVICE_GUESSES_MAX, DEVICE_LIFETIME_MS } from "../../src/domain/limits.ts";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import type { LoginStore } from "../../src/store/logins.ts";
import { MemoryLogins } from "../../src/store/memory-logins.ts";
import { PostgresLogins } from "../../src/store/postgres-logins.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import { sealPostgresAnew } from "../../src/store/seal-anew.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";

interface Opened {
  readonly logins: LoginStore;
  /** What another platform has of the same. */
  readonly elsewhere: LoginStore;
  /** Time goes by. */
  pass(ms: number): Promise<void>;
}

const ANNA = { machine: "anna's laptop", scopes: ["deploy", "invoke"], address: "10.0.0.1" } as const;
const found = await findPostgres();
const refused = { code: "RATE_LIMITED" };

function conformance(column: string, open: () => Promise<Opened>): void {
  test(`${column}: an approved login gets its secret once, whoever approves and whoever is asked`, async () => {
    const { logins, elsewhere } = await open();
    const { deviceCode, userCode } = await logins.open(ANNA);
    assert.match(userCode, /^[B-Z]{4}-[B-Z]{4}$/);
    assert.deepEqual(await elsewhere.find(` ${userCode.toLowerCase().replace("-", " ")} `), { ...ANNA, userCode });
    assert.deepEqual(await logins.poll(deviceCode), { error: "authorization_pending" });
    const claims = await Promise.all([logins.claim(userCode), elsewhere.claim(userCode), logins.claim(userCode)]);
    assert.equal(claims.filter((isMine) => isMine).length, 1);
    assert.equal(await logins.find(userCode), undefined, "nothing to approve any more");
    await elsewhere.settle(userCode, "svc_the-secret");
    const polls = await Promise.all([logins.poll(deviceCode), elsewhere.poll(deviceCode), logins.poll(deviceCode)]);
    const given = polls.filter((outcome) => "secret" in outcome);
    assert.deepEqual(given, [{ secret: "svc_the-secret", scopes: [...ANNA.scopes] }]);
    assert.deepEqual(await elsewhere.poll(deviceCode), { error: "expired_token" });
  });

  test(`${column}: a login that is denied says so once, one that could not be approved waits again`, async () => {
    const { logins } = await open();
    const one = await logins.open(ANNA);
    await logins.deny(one.userCode);
    assert.equal(await logins.claim(one.userCode), false);
    assert.deepEqual(await logins.poll(one.deviceCode), { error: "access_denied" });
    assert.deepEqual(await logins.poll(one.deviceCode), { error: "expired_token" });
    const other = await logins.open(ANNA);
    assert.equal(await logins.claim(other.userCode), true);
    await logins.deny(other.userCode);
    await logins.settle(other.userCode, undefined);
    assert.equal((await logins.find(other.userCode))?.machine, ANNA.machine);
    await logins.settle(other.userCode, "of nobody who claimed it");
    assert.deepEqual(await logins.poll(other.deviceCode), { error: "authorization_pending" });
  });

  test(`${column}: one that polls too early is slowed down, one that waits too long is gone, and too many are refused`, async () => {
    const { logins, pass } = await open();
    const { deviceCode, userCode } = await logins.open(ANNA);
    assert.deepEqual(await logins.poll(deviceCode), { error: "authorization_pending" });
    assert.deepEqual(await logins.poll(deviceCode), { error: "slow_down" });
    await pass(2_000);
    assert.deepEqual(await logins.poll(deviceCode), { error: "slow_down" }, "the pause is longer now");
    await pass(14_000);
    assert.deepEqual(await logins.poll(deviceCode), { error: "authorization_pending" });
    await pass(DEVICE_LIFETIME_MS);
    assert.equal(await logins.find(userCode), undefined);
    assert.deepEqual(await logins.poll(deviceCode), { error: "expired_token" });
    for (let i = 0; i < DEVICE_GRANTS_PER_ADDRESS_MAX; i++) await logins.open(ANNA);
    await assert.rejects(logins.open(ANNA), refused);
    await logins.open({ ...ANNA, address: "10.0.0.2" });
    await pass(DEVICE_LIFETIME_MS);
    await logins.open(ANNA);
  });

  test(`${column}: an address that guesses is refused at every platform for a while, others are not`, async () => {
    const { logins, elsewhere, pass } = await open();
    for (let i = 0; i < DEVICE_GUESSES_MAX; i++) await (i % 2 === 0 ? logins : elsewhere).wrongCode("10.0.0.1");
    await assert.rejects(logins.wrongCode("10.0.0.1"), refused);
    await assert.rejects(elsewhere.wrongCode("10.0.0.1"), refused);
    await logins.wrongCode("10.0.0.2");
    await pass(600_000);
    await logins.wrongCode("10.0.0.1");
  });

  test(`${column}: codes that were never given, in whatever shape, open nothing`, async () => {
    const { logins } = await open();
    const { userCode } = await logins.open(ANNA);
    for (const code of ["", "%", "' OR 1=1 --", "\0", "A".repeat(10_000), userCode.slice(0, 8)]) {
      assert.equal(await logins.find(code), undefined);
      assert.equal(await logins.claim(code), false);
      assert.deepEqual(await logins.poll(code), { error: "expired_token" });
    }
    assert.equal((await logins.find(userCode))?.userCode, userCode);
  });
}

describe("logins in memory", () => {
  conformance("memory", async () => {
    let now = 0;
    const logins = new MemoryLogins(() => now, randomBytes);
    const pass = async (ms: number) => {
      now += ms;
    };
    return { logins, elsewhere: logins, pass };
  });
});

describe("logins in PostgreSQL", { skip: "missing" in found && found.missing }, () => {
  let server: PostgresServer;
  const open: Postgres[] = [];
  let databases = 0;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(async () => {
    for (const postgres of open) await postgres.close();
    await server?.stop();
  });

  conformance("PostgreSQL", async () => {
    const name = `logins_${++databases}`;
    const access = { url: parseDatabaseUrl(await server.database(name)), passwordFile: undefined };
    const both = [0, 1].map(() => new Postgres({ access, connectionsMax: 3 }));
    open.push(...both);
    await (await openPostgresStore(both[0]!)).close();
    const seal = new SealedText(randomBytes(SEAL_KEY_BYTES));
    const [logins, elsewhere] = both.map((postgres) => new PostgresLogins(postgres, seal, randomBytes));
    const pass = async (ms: number) => {
      const by = `interval '${ms} milliseconds'`;
      await server.sql(
        `UPDATE device_logins SET expires_at = expires_at - ${by}, next_poll_at = next_poll_at - ${by};
         UPDATE device_guesses SET until = until - ${by}`,
        name,
      );
    };
    return { logins: logins!, elsewhere: elsewhere!, pass };
  });

  test("a secret on its way to its machine cannot be read in the database", async () => {
    const name = `logins_${++databases}`;
    const access = { url: parseDatabaseUrl(await server.database(name)), passwordFile: undefined };
    const postgres = new Postgres({ access, connectionsMax: 3 });
    open.push(postgres);
    await (await openPostgresStore(postgres)).close();
    const logins = new PostgresLogins(postgres, new SealedText(randomBytes(SEAL_KEY_BYTES)), randomBytes);
    const { deviceCode, userCode } = await logins.open(ANNA);
    await logins.claim(userCode);
    await logins.settle(userCode, "svc_the-secret");
    const row = await server.sql("SELECT * FROM device_logins", name);
    assert.match(row, /APPROVED\|v1\./);
    assert.doesNotMatch(row, new RegExp(`the-secret|${deviceCode}`));
  });

  test("a secret on its way is sealed anew with a new key; where its key is lost, the login has expired", async () => {
    const name = `logins_${++databases}`;
    const access = { url: parseDatabaseUrl(await server.database(name)), passwordFile: undefined };
    const postgres = new Postgres({ access, connectionsMax: 3 });
    open.push(postgres);
    await (await openPostgresStore(postgres)).close();
    const [old, fresh] = [randomBytes(SEAL_KEY_BYTES), randomBytes(SEAL_KEY_BYTES)];
    const [before, after] = [old, fresh].map((key) => new PostgresLogins(postgres, new SealedText(key), randomBytes));
    const approved = async (secret: string) => {
      const login = await before!.open(ANNA);
      await before!.claim(login.userCode);
      await before!.settle(login.userCode, secret);
      return login.deviceCode;
    };
    const [one, other] = [await approved("svc_one"), await approved("svc_other")];
    const both = new SealedText(fresh, old);
    assert.deepEqual(await sealPostgresAnew(postgres, both), { renewed: 2, unreadable: 0 });
    assert.deepEqual(await after!.poll(one), { secret: "svc_one", scopes: [...ANNA.scopes] });
    assert.deepEqual(await before!.poll(other), { error: "expired_token" });
    assert.deepEqual(await after!.poll(other), { error: "expired_token" }, "once is enough");
  });
});
