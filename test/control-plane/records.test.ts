/** What happened: jobs of all endpoints, deploys, and who did what. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { errorKind, requestErrorKind } from "../../src/domain/error-kind.ts";
import { AUDIT_REFUSED_PER_WINDOW_MAX, RECORDS_PAGE_MAX } from "../../src/domain/limits.ts";
import { newJob } from "../conformance/queue.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const never = new AbortController().signal;

async function key(platform: TestPlatform, input: object): Promise<string> {
  const document = "mutation($input: KeyInput!) { createKey(input: $input) { secret } }";
  return (await platform.ask(document, { input: { name: "some", scopes: ["read"], ...input } })).data.createKey.secret;
}

async function jobs(platform: TestPlatform, filter: object = {}, as?: string, page: object = {}) {
  const document = `query($filter: JobFilter, $first: Int! = 50, $after: String) { jobs(filter: $filter, first: $first, after: $after) {
    next jobs { id endpoint app environment state error errorType hasBodies expiresAt attempt waitMs runMs workerId coldStart }
  } }`;
  const { data, errors } = await platform.ask(document, { filter, ...page }, as);
  return { list: data?.jobs.jobs, next: data?.jobs.next, errors };
}

test("jobs of all endpoints are listed, and a key sees only those of its own place", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const idOf = async (environment: string): Promise<string> =>
    (await deploy(platform, build, { env: ENV, environment })).data.deployBuild.endpoints[0].id;
  const [production, staging] = [await idOf("production"), await idOf("staging")];
  const claim = platform.queue.claim(staging, "w-1", 1, never);
  await platform.queue.enqueue(newJob(staging, { id: "0190-b-l1" }));
  const [claimed] = await claim;
  const error = JSON.stringify({
    error_type: "KeyError",
    error_message: "'\u001b[31mred'\nsecond line",
    error_traceback: '  File "hello.py", line 7, in paint',
  });
  await platform.queue.finish(claimed!, { state: "FAILED", error });
  await platform.queue.enqueue(newJob(production, { id: "0190-a-l1" }));

  const { list } = await jobs(platform);
  assert.deepEqual(
    list.map((job: { id: string; environment: string; state: string }) => [job.id, job.environment, job.state]),
    [
      ["0190-a-l1", "production", "IN_QUEUE"],
      ["0190-b-l1", "staging", "FAILED"],
    ],
  );
  const { expiresAt, waitMs, runMs, ...failed } = list[1];
  assert.ok(expiresAt > Date.now() && waitMs >= 0 && runMs >= 0);
  assert.deepEqual(failed, {
    id: "0190-b-l1",
    endpoint: "hello",
    app: "shop",
    environment: "staging",
    state: "FAILED",
    error: "KeyError: '\u001b[31mred'",
    errorType: "KeyError",
    hasBodies: true,
    attempt: 1,
    workerId: "w-1",
    coldStart: null,
  });
  const count = async (filter: object, as?: string) => (await jobs(platform, filter, as)).list.length;
  assert.equal(await count({ error: "RED'" }), 1);
  assert.equal(await count({ error: "hello.py" }), 1);
  for (const pattern of [".*", "%", "' OR 1=1; DROP TABLE jobs --", "\u001b[2J"]) {
    assert.equal(await count({ error: pattern }), 0, pattern);
    assert.equal(await count({ id: pattern }), 0, pattern);
  }
  assert.equal(await count({ states: ["failed"], environment: "staging", endpoint: "hello" }), 1);
  assert.equal(await count({ endpoint: staging, app: "shop" }), 1);
  assert.equal(await count({ app: "other" }), 0);

  for (const input of [{ app: "shop", environment: "staging" }, { endpointId: staging }]) {
    const bound = await key(platform, input);
    assert.deepEqual(
      (await jobs(platform, {}, bound)).list.map(({ id }: { id: string }) => id),
      ["0190-b-l1"],
    );
    assert.equal(await count({ environment: "production" }, bound), 0);
    const other = await jobs(platform, { endpoint: production }, bound);
    assert.equal(other.errors?.[0]?.extensions.code, "ENDPOINT_NOT_FOUND");
  }
  for (const [filter, page] of [
    [{ states: ["DONE"] }, {}],
    [{}, { first: 0 }],
    [{}, { first: RECORDS_PAGE_MAX + 1 }],
    [{}, { after: "1; DROP TABLE jobs" }],
  ] as const) {
    assert.equal((await jobs(platform, filter, undefined, page)).errors?.[0]?.extensions.code, "BAD_INPUT");
  }
  const one = await jobs(platform, {}, undefined, { first: 1 });
  const two = await jobs(platform, {}, undefined, { first: 1, after: one.next });
  assert.deepEqual([one.list[0].id, two.list[0].id, two.next], ["0190-a-l1", "0190-b-l1", null]);
});

test("requests, decisions and groups of errors are listed, each key's own", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const idsOf = async (environment: string) => {
    const { endpoints } = (await deploy(platform, build, { env: ENV, environment })).data.deployBuild;
    return endpoints.map(({ id }: { id: string }) => id) as string[];
  };
  const [[hello, web], [other, otherWeb]] = [await idsOf("production"), await idsOf("staging")];
  const { records } = platform;
  const request = (endpointId: string, id: string, status: number) => ({
    ...{ endpointId, id, status, method: "GET", route: "GET /health", path: "/health", at: 1_000 + status },
    ...{ waitMs: 1, runMs: 2, totalMs: 3.5, workerId: "w-1", coldStart: true },
  });
  for (const [id, status] of [
    ["a1", 200],
    ["a2", 404],
    ["", 503],
  ] as const)
    records.requestEnded(request(web!, id, status));
  records.requestEnded(request(otherWeb!, "b1", 200));
  const decision = { at: 5_000, start: 1, stop: 0, reason: "1 waiting", times: 1 };
  records.decided(hello!, decision);
  records.decided(hello!, { ...decision, at: 6_000, times: 2 });
  records.decided(other!, decision);
  const error = JSON.stringify({
    error_type: "KeyError",
    error_message: "'red'",
    error_traceback: 'File "hello.py", line 7, in paint',
  });
  const kind = errorKind(hello!, error);
  const at = 5 * 3_600_000;
  for (const [n, jobId] of ["j1", "j2"].entries())
    records.failed({ endpointId: hello!, at: at + n, jobId, kind: () => kind });
  records.failed({ endpointId: web!, at, jobId: null, kind: () => requestErrorKind(web!, 503, "GET /health") });

  const ask = async (document: string, as?: string) => (await platform.ask(document, {}, as)).data;
  const listed = async (args: string, as?: string) =>
    (await ask(`{ requests${args} { requests { id status endpoint waitMs totalMs coldStart } } }`, as)).requests
      .requests;
  const all = await listed("");
  assert.deepEqual(
    all.map(({ id, status }: { id: string; status: number }) => [id, status]),
    [
      ["b1", 200],
      ["request-3", 503],
      ["a2", 404],
      ["a1", 200],
    ],
  );
  assert.deepEqual(all[0], { id: "b1", status: 200, endpoint: "web", waitMs: 1, totalMs: 3.5, coldStart: true });
  for (const [filter, count] of [
    [`endpoint: "${web}"`, 3],
    ['statusClass: "4xx"', 1],
    ['statusClass: "503"', 1],
    ['route: "GET /health"', 4],
    ['route: "GET /%"', 0],
    ['id: "a"', 2],
    ["from: 1204, to: 1404", 1],
    ['environment: "staging"', 1],
  ] as const) {
    assert.equal((await listed(`(filter: {${filter}})`)).length, count, filter);
  }
  const bound = await key(platform, { app: "shop", environment: "staging" });
  assert.deepEqual(
    (await listed("", bound)).map(({ id }: { id: string }) => id),
    ["b1"],
  );
  const wrong = await platform.ask('{ requests(filter: {statusClass: "x OR 1=1"}) { next } }');
  assert.equal(wrong.errors?.[0]?.extensions.code, "BAD_INPUT");

  const decided = (as?: string) => ask("{ decisions { decisions { endpointId at reason times } } }", as);
  assert.deepEqual((await decided()).decisions.decisions, [
    { endpointId: other, at: 5_000, reason: "1 waiting", times: 1 },
    { endpointId: hello, at: 6_000, reason: "1 waiting", times: 2 },
  ]);
  assert.equal((await decided(bound)).decisions.decisions.length, 1);

  const groups = async (args = "", as?: string) =>
    (await ask(`{ errorGroups${args} { key type place message endpoint count firstAt lastAt lastJobId } }`, as))
      .errorGroups;
  assert.deepEqual(await groups(), [
    {
      ...{
        key: kind.key,
        type: "KeyError",
        place: "hello.py:7 in paint",
        message: "KeyError: 'red'",
        endpoint: "hello",
      },
      ...{ count: 2, firstAt: at, lastAt: at + 1, lastJobId: "j2" },
    },
    {
      ...{
        key: requestErrorKind(web!, 503, "GET /health").key,
        type: "HTTP 503",
        place: "GET /health",
        endpoint: "web",
      },
      ...{ message: "GET /health answered 503", count: 1, firstAt: at, lastAt: at, lastJobId: null },
    },
  ]);
  assert.equal((await groups(`(from: ${at + 3_600_000})`)).length, 0);
  assert.equal((await groups("", bound)).length, 0);
  const claim = platform.queue.claim(hello!, "w-1", 1, never);
  await platform.queue.enqueue(newJob(hello!, { id: "0190-c-l1" }));
  await platform.queue.finish((await claim)[0]!, { state: "FAILED", error });
  assert.equal((await jobs(platform, { errorGroup: kind.key })).list.length, 1);
  assert.equal((await jobs(platform, { errorGroup: "0000" })).list.length, 0);
});

async function deploys(platform: TestPlatform, args = "", as?: string) {
  const { data } = await platform.ask(
    `{ deploys${args} { next deploys { app environment action keyName message live verdict reason endpoints changes } } }`,
    {},
    as,
  );
  return data.deploys.deploys;
}

test("deploys and rollbacks are listed with what they changed and how they fared, also once their app is gone", async (t) => {
  const platform = await startPlatform(t);
  const first = await sample(platform);
  const one = (await deploy(platform, first, { env: ENV, message: "the first" })).data.deployBuild;
  const hello = { ...first.resources.hello!, workersMax: 7 };
  await deploy(platform, { ...(await sample(platform, "other")), resources: { hello }, routes: {} }, { env: ENV });
  await platform.store.builds.judge(one.buildId, { state: "ready", reason: "", at: 5 });
  await platform.ask('mutation { rollback(app: "shop", environment: "production") { buildId } }');
  await deploy(platform, first, { env: ENV, environment: "staging" });
  // Nothing changes: nothing happened.
  await deploy(platform, first, { env: ENV, environment: "staging" });

  const all = await deploys(platform);
  assert.deepEqual(
    all.map((one: Record<string, unknown>) => [one.environment, one.action, one.message, one.live, one.verdict]),
    [
      ["staging", "deploy", "", true, "pending"],
      ["production", "rollback", "the first", true, "ready"],
      ["production", "deploy", "", false, "pending"],
      ["production", "deploy", "the first", false, "ready"],
    ],
  );
  assert.deepEqual(all[2].changes, ["update hello: code, workersMax 3 → 7", "remove web: no longer in the code"]);
  assert.deepEqual([all[3].endpoints, all[3].keyName], [["hello", "web"], "first key"]);
  const bound = await key(platform, { app: "shop", environment: "staging" });
  assert.equal((await deploys(platform, '(environment: "production")', bound)).length, 0);
  assert.equal((await deploys(platform, "", bound)).length, 1);

  await platform.ask('mutation { deleteApp(name: "shop") }');
  const later = await deploys(platform, '(app: "shop")');
  assert.deepEqual([later.length, later.some(({ live }: { live: boolean }) => live)], [4, false]);
});

async function audit(platform: TestPlatform, args = "", as?: string) {
  const document = `{ audit${args} { next entries { id at keyId keyName action target detail address } } }`;
  const { data, errors } = await platform.ask(document, {}, as);
  return { entries: data?.audit.entries, next: data?.audit.next, errors };
}

test("the audit log has every act with who did it, and neither a value nor a key", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const { endpoints } = (await deploy(platform, build, { env: ENV })).data.deployBuild;
  const value = "hunter2-the-value";
  const set =
    'mutation($value: String!) { setSecret(input: {app: "shop", environment: "production", name: "T", value: $value}) { name } }';
  await platform.ask(set, { value });
  const secret = await key(platform, { name: "ci", scopes: ["deploy"], app: "shop", environment: "production" });
  await platform.ask(`mutation { saveEndpoint(input: {id: "${endpoints[0].id}", workersMax: 4}) { id } }`, {}, secret);
  await platform.ask('mutation { deleteSecret(app: "shop", environment: "production", name: "T") }', {}, secret);
  await platform.ask('mutation { deleteApp(name: "shop") }', {}, secret);
  await platform.ask("{ apps { name } }", {}, "svc_wrong");
  const { data } = await platform.ask("{ myself { keys { id name } } }");
  const ci = data.myself.keys.find(({ name }: { name: string }) => name === "ci");
  await platform.ask(`mutation { revokeKey(id: "${ci.id}") }`);
  await platform.ask('mutation { deleteEnvironment(app: "shop", name: "production") }');

  const { entries } = await audit(platform);
  assert.deepEqual(
    entries.map(({ action, keyName }: { action: string; keyName: string }) => [action, keyName]),
    [
      ["environment.delete", "first key"],
      ["key.revoke", "first key"],
      ["access.refused", "unknown key"],
      ["access.refused", "ci"],
      ["secret.delete", "ci"],
      ["endpoint.save", "ci"],
      ["key.create", "first key"],
      ["secret.set", "first key"],
      ["build.deploy", "first key"],
      ["key.create", "the platform"],
    ],
  );
  assert.ok(entries.slice(0, -1).every(({ address }: { address: string }) => address === "127.0.0.1"));
  assert.deepEqual([entries[3].target, entries[4].target], ["deleteApp", "shop/production/T"]);
  assert.equal(entries[0].detail, "with hello, web");
  const text = JSON.stringify(entries);
  for (const never of [value, secret, platform.adminKey, ...Object.values(ENV.hello!)]) {
    assert.equal(text.includes(never), false, "no value and no key");
  }
  const page = await audit(platform, "(first: 4)");
  const rest = await audit(platform, `(first: 500, after: "${page.next}")`);
  assert.deepEqual([...page.entries, ...rest.entries], entries);
  assert.equal((await audit(platform, '(action: "secret.set")')).entries.length, 1);
  assert.equal((await audit(platform, `(from: ${Date.now() + 1000})`)).entries.length, 0);
  const reader = await key(platform, { scopes: ["deploy", "read", "invoke"] });
  assert.equal((await audit(platform, "", reader)).errors?.[0]?.extensions.code, "FORBIDDEN");
});

test("alerts belong to a place: a key that is bound to one neither sees nor makes those of another", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const web = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints[1];
  await deploy(platform, build, { env: ENV, environment: "staging" });
  const create = (input: object, as?: string) =>
    platform.ask(
      "mutation($input: AlertInput!) { createAlert(input: $input) { id url kind app environment endpoint threshold firing lastDelivery } }",
      { input: { kind: "errors.rate", url: "https://hooks.example.com/a-secret?b", ...input } },
      as,
    );
  const all = (await create({})).data.createAlert;
  assert.deepEqual([all.url, all.threshold, all.app, all.firing], ["https://hooks.example.com/…", 5, null, false]);
  const ofWeb = (await create({ endpointId: web.id, threshold: 12.5 })).data.createAlert;
  assert.deepEqual([ofWeb.environment, ofWeb.endpoint, ofWeb.threshold], ["production", "web", 12.5]);
  const bound = await key(platform, { scopes: ["deploy"], app: "shop", environment: "staging" });
  for (const input of [{}, { app: "shop", environment: "production" }, { endpointId: web.id }, { kind: "disk.full" }]) {
    assert.equal((await create(input, bound)).errors?.[0]?.extensions.code, "FORBIDDEN");
  }
  const own = (await create({ app: "shop", environment: "staging" }, bound)).data.createAlert;
  const ids = async (as?: string) =>
    (await platform.ask("{ alerts { id } }", {}, as)).data.alerts.map(({ id }: { id: string }) => id);
  assert.deepEqual([await ids(), await ids(bound)], [[all.id, ofWeb.id, own.id], [own.id]]);
  for (const operation of ["testAlert", "removeAlert"]) {
    const { errors } = await platform.ask(`mutation { ${operation}(id: "${all.id}") }`, {}, bound);
    assert.equal(errors?.[0]?.extensions.code, "NOT_FOUND");
  }
  await platform.ask('mutation { deleteEnvironment(app: "shop", name: "staging") }');
  assert.deepEqual(await ids(), [all.id, ofWeb.id], "an alert goes with its environment");
});

test("an act whose entry cannot be written does not happen, and an entry cannot be changed", async (t) => {
  const platform = await startPlatform(t);
  const { isPostgres, sql } = platform.database;
  await sql(
    isPostgres
      ? `CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$;
         CREATE TRIGGER broken BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION break()`
      : "CREATE TRIGGER broken BEFORE INSERT ON audit BEGIN SELECT raise(abort, 'broken'); END",
  );
  const created = await platform.ask('mutation { createKey(input: {name: "x", scopes: ["admin"]}) { secret } }');
  assert.ok(created.errors);
  const environment = await platform.ask('mutation { createEnvironment(app: "shop", name: "new") { id } }');
  assert.ok(environment.errors);
  assert.deepEqual([(await platform.store.keys.list()).length, (await platform.store.apps.list()).length], [1, 0]);
  await assert.rejects(sql("UPDATE audit SET key_name = 'other'"), /only appended to/);
});

test("a flood of wrong keys fills the audit log no more than a few tries would, and pushes nothing out of it", async (t) => {
  const platform = await startPlatform(t);
  await Promise.all(Array.from({ length: 300 }, (_, n) => platform.ask("{ apps { name } }", {}, `svc_${n}`)));
  const refused = await audit(platform, '(action: "access.refused", first: 500)');
  assert.ok(refused.entries.length >= 1 && refused.entries.length <= AUDIT_REFUSED_PER_WINDOW_MAX);
  const append = (n: number) =>
    platform.store.audit.append({
      at: n,
      keyId: null,
      keyName: "",
      action: "access.refused",
      target: "",
      detail: "",
      address: "",
    });
  for (let n = 1; n <= 20; n++) await append(Date.now());
  await platform.store.audit.trim(0, { action: "access.refused", ofAction: 5, ofOthers: 10 });
  const { entries } = await audit(platform);
  assert.deepEqual(
    entries.map(({ action }: { action: string }) => action),
    [...Array(5).fill("access.refused"), "key.create"],
  );
  await platform.store.audit.trim(Date.now() + 1, { action: "access.refused", ofAction: 5, ofOthers: 10 });
  assert.equal((await audit(platform)).entries.length, 0);
});
