/** Two platforms on one PostgreSQL, which decide at the same time: what each checks is still so when it writes. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { isRemovedName } from "../../src/domain/names.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { postgresAt } from "../queue/open-postgres-queue.ts";
import { deploy, manifest, resource } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const TRIES = 6;

describe("two platforms on one database, at the same time,", { skip }, () => {
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
  });
  after(() => server?.stop());

  const platforms = async (t: TestContext, name: string): Promise<[TestPlatform, TestPlatform]> => {
    const url = await server.database(name);
    const open = async (adminKey?: string) => {
      const postgres = postgresAt(url, 4);
      const store = await openPostgresStore(postgres);
      const platform = await startPlatform(t, {}, undefined, { store, adminKey });
      t.after(async () => {
        await store.close();
        await postgres.close();
      });
      return platform;
    };
    const first = await open();
    return [first, await open(first.adminKey)];
  };

  test("keep to the quota of workers together", async (t) => {
    const two = await platforms(t, "quota");
    const sources = await Promise.all(two.map((one) => one.upload(Buffer.from("s"))));
    const answers = await Promise.all(
      Array.from({ length: TRIES }, (_, n) => {
        const build = manifest(sources[n % 2]!, { hello: resource("hello", { workersMax: 20 }) });
        return deploy(two[n % 2]!, build, { environment: `e${n}` });
      }),
    );
    const codes = answers.map(({ errors }) => errors?.[0]?.extensions.code ?? "deployed").sort();
    assert.deepEqual(codes, [...Array(TRIES - 1).fill("QUOTA_EXCEEDED"), "deployed"]);
    assert.equal((await two[0].store.endpoints.list()).length, 1);
  });

  test("deploy one after the other: what is there is one of the deploys, whole", async (t) => {
    const two = await platforms(t, "deploys");
    const sources = await Promise.all(two.map((one) => one.upload(Buffer.from("s"))));
    const names = (n: number) => [`a${n}`, `b${n}`, "both"];
    const answers = await Promise.all(
      Array.from({ length: TRIES }, (_, n) => {
        const parts = names(n).map((name) => [name, resource(name, { workersMax: 1 })] as const);
        return deploy(two[n % 2]!, manifest(sources[n % 2]!, Object.fromEntries(parts)));
      }),
    );
    for (const { errors } of answers) assert.equal(errors, undefined);
    const there = (await two[0].store.endpoints.list()).map(({ name }) => name);
    const found = there.filter((name) => !isRemovedName(name)).sort();
    assert.ok(
      answers.some((_, n) => names(n).sort().join() === found.join()),
      found.join(),
    );
  });

  test("set secrets: of one name there is one, with the value of one of them", async (t) => {
    const two = await platforms(t, "secrets");
    const made = await two[0].ask(`mutation { createEnvironment(app: "shop", name: "production") { name } }`);
    assert.equal(made.errors, undefined);
    const set = `mutation($value: String!) { setSecret(input: {app: "shop", environment: "production", name: "T", value: $value}) { name } }`;
    const answers = await Promise.all(
      Array.from({ length: TRIES }, (_, n) => two[n % 2]!.ask(set, { value: `value ${n}` })),
    );
    for (const { errors } of answers) assert.equal(errors, undefined);
    assert.equal(await server.sql("SELECT count(*) FROM secrets", "secrets"), "1");
  });
});
