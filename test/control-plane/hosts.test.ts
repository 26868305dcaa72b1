import assert from "node:assert/strict";
import { test } from "node:test";
import { hashSecret } from "../../src/domain/api-key.ts";
import { newHost } from "../conformance/store-hosts.ts";
import { addWorker, startPlatform, type TestPlatform } from "./platform.ts";

const CREATE = `mutation ($input: HostTokenInput!) { createHostToken(input: $input) {
  secret fingerprint port url token { id name state reusable createdBy expiresAt createdAt } } }`;
const TOKENS = "{ hostTokens { id state usedAt } }";
const HOSTS = `{ hosts { id name state draining since labels version vcpu { total promised used } memoryGb { total promised used }
  gpus { name endpoint workerId busy } workers { id endpoint state vcpu gpus } problems } }`;

const code = async (asked: ReturnType<TestPlatform["ask"]>) => (await asked).errors?.[0]?.extensions.code;

async function join(platform: TestPlatform, name: string, input: object = {}) {
  const { data } = await platform.ask(CREATE, { input });
  const host = newHost({ name });
  assert.deepEqual(await platform.store.hosts.join(hashSecret(data.createHostToken.secret), Date.now(), host), host);
  return host;
}

async function key(platform: TestPlatform, scopes: string[], bound: object = {}): Promise<string> {
  const create = "mutation ($input: KeyInput!) { createKey(input: $input) { secret } }";
  return (await platform.ask(create, { input: { name: "k", scopes, ...bound } })).data.createKey.secret;
}

const actions = async (platform: TestPlatform) =>
  (await platform.ask("{ audit { entries { action target detail } } }")).data.audit.entries
    .filter(({ action }: { action: string }) => action.startsWith("host."))
    .map(({ action, target }: { action: string; target: string }) => `${action} ${target.split(" ")[0]}`);

test("a join token is shown once, lists say what became of it, and a revoked one lets nobody in", async (t) => {
  const platform = await startPlatform(t);
  const { data } = await platform.ask(CREATE, { input: { name: "gpu-1" } });
  const made = data.createHostToken;
  assert.match(made.secret, /^svch_[\w-]{43}$/);
  assert.deepEqual([made.fingerprint, made.port, made.url], ["ab".repeat(32), 8788, platform.url]);
  assert.deepEqual([made.token.state, made.token.reusable, made.token.createdBy], ["open", false, "first key"]);
  assert.equal(made.token.expiresAt - made.token.createdAt, 3_600_000);
  const host = newHost({ name: "gpu-1" });
  assert.equal(typeof (await platform.store.hosts.join(hashSecret(made.secret), Date.now(), host)), "object");
  const second = (await platform.ask(CREATE, { input: { reusable: true, expiresInSeconds: 60 } })).data.createHostToken;
  const revoke = "mutation ($id: String!) { revokeHostToken(id: $id) }";
  for (let times = 0; times < 2; times++) {
    assert.equal((await platform.ask(revoke, { id: second.token.id })).data.revokeHostToken, true);
  }
  assert.equal(await code(platform.ask(revoke, { id: "nobody" })), "NOT_FOUND");
  assert.equal(await platform.store.hosts.join(hashSecret(second.secret), Date.now(), newHost()), "revoked");
  const { hostTokens } = (await platform.ask(TOKENS)).data;
  assert.deepEqual(hostTokens.map(({ state }: { state: string }) => state).sort(), ["revoked", "used"]);
  assert.ok(!JSON.stringify(platform.logged).includes(made.secret));
  const rows = await platform.database.sql("SELECT * FROM host_tokens");
  assert.ok(!JSON.stringify(rows).includes(made.secret.slice(5)));
  assert.deepEqual(await actions(platform), [
    `host.token.revoke ${second.token.id}`,
    `host.token.create ${second.token.id}`,
    "host.token.create gpu-1",
  ]);
});

test("a token that cannot be is refused in words, and so is any while the platform has no port for hosts", async (t) => {
  const platform = await startPlatform(t);
  for (const [input, words] of [
    [{ name: "GPU 1" }, /"GPU 1" cannot be the name of a host: .*a-z/],
    [{ expiresInSeconds: 0 }, /1 second to 30 days/],
    [{ expiresInSeconds: 2_592_001 }, /1 second to 30 days/],
    [{ name: "a", reusable: true }, /leave out the name/],
  ] as const) {
    const { errors } = await platform.ask(CREATE, { input });
    assert.equal(errors?.[0]?.extensions.code, "BAD_INPUT");
    assert.match(errors[0]!.message, words);
  }
  platform.workerPort.is = undefined;
  const { errors } = await platform.ask(CREATE, { input: {} });
  assert.match(errors![0]!.message, /SVC_WORKER_LISTEN=tls:\/\/0\.0\.0\.0:8788/);
  assert.deepEqual((await platform.ask(TOKENS)).data.hostTokens, []);
});

test("only an admin key has to do with tokens, drains and removes; what was tried is in the audit", async (t) => {
  const platform = await startPlatform(t);
  await join(platform, "a");
  const deploy = await key(platform, ["deploy", "invoke", "read"]);
  for (const document of [
    "mutation { createHostToken(input: {}) { secret } }",
    TOKENS,
    'mutation { revokeHostToken(id: "x") }',
    'mutation { drainHost(name: "a", on: true) { id } }',
    'mutation { removeHost(name: "a") }',
  ]) {
    assert.equal(await code(platform.ask(document, {}, deploy)), "FORBIDDEN", document);
  }
  assert.equal((await platform.ask("{ hosts { name } }", {}, deploy)).data.hosts[0].name, "a");
  const invoke = await key(platform, ["invoke"]);
  assert.equal(await code(platform.ask("{ hosts { name } }", {}, invoke)), "FORBIDDEN");
  assert.equal((await platform.store.hosts.list()).length, 1);
});

test("hosts are listed with their machine, what is promised of it, its workers and what is wrong", async (t) => {
  const platform = await startPlatform(t);
  const [near, far] = [await join(platform, "near"), await join(platform, "far")];
  const save = 'mutation { saveEndpoint(input: {name: "paint", templateId: "t", gpuIds: "ANY"}) { id } }';
  const { id: endpointId } = (await platform.ask(save)).data.saveEndpoint;
  await addWorker(platform.store, endpointId);
  const [worker] = await platform.store.workers.list();
  const gpu = { product: "NVIDIA A100 80GB", emulated: false };
  const machine = {
    hardware: { vcpus: 8, memoryGb: 32 },
    vcpus: 8,
    memoryGb: 32,
    gpus: [gpu, gpu],
    emulatesGpu: false,
  };
  const share = { vcpus: 2, memoryGb: 4, gpus: [1], host: near.id };
  platform.hosts.push({
    id: near.id,
    connected: true,
    since: 5,
    machine,
    inUse: { vcpus: 1.5, memoryGb: 6, gpus: [{ index: 1, busy: 0.25, memoryGb: 20 }] },
    workers: [{ worker: worker!.id, share }],
    problems: ["Its clock is 3 s off."],
  });
  const [away, here] = (await platform.ask(HOSTS)).data.hosts;
  assert.deepEqual([away.name, away.state, away.vcpu, away.workers], ["far", "away", null, []]);
  assert.deepEqual(
    [here.name, here.state, here.since, here.problems],
    ["near", "joined", 5, ["Its clock is 3 s off."]],
  );
  assert.deepEqual(
    [here.vcpu, here.memoryGb],
    [
      { total: 8, promised: 2, used: 1.5 },
      { total: 32, promised: 4, used: 6 },
    ],
  );
  assert.deepEqual(
    here.gpus.map((one: { endpoint: string | null; busy: number | null }) => [one.endpoint, one.busy]),
    [
      [null, null],
      [endpointId, 0.25],
    ],
  );
  assert.deepEqual(here.workers, [{ id: worker!.id, endpoint: "paint", state: "READY", vcpu: 2, gpus: 1 }]);

  // A key for another place sees the machine, and nobody's worker on it.
  await platform.ask('mutation { createEnvironment(app: "other", name: "production") { id } }');
  const bound = await key(platform, ["read"], { app: "other", environment: "production" });
  const [, seen] = (await platform.ask(HOSTS, {}, bound)).data.hosts;
  assert.deepEqual([seen.workers, seen.vcpu, seen.problems], [[], { total: 8, promised: 0, used: null }, []]);
  assert.ok(!JSON.stringify(await platform.ask("{ hosts { id name } }")).includes(far.secretHash));
});

test("a host drains and is back, and a removed one is gone; both are in the audit", async (t) => {
  const platform = await startPlatform(t);
  const host = await join(platform, "a");
  platform.hosts.push({
    id: host.id,
    connected: true,
    since: 1,
    machine: undefined,
    inUse: undefined,
    workers: [],
    problems: [],
  });
  const drain = 'mutation ($on: Boolean!) { drainHost(name: "a", on: $on) { state draining } }';
  assert.deepEqual((await platform.ask(drain, { on: true })).data.drainHost, { state: "draining", draining: true });
  assert.deepEqual((await platform.ask(drain, { on: false })).data.drainHost, { state: "joined", draining: false });
  assert.equal((await platform.ask('mutation { removeHost(name: "a") }')).data.removeHost, true);
  assert.equal(await platform.store.hosts.findBySecret(host.secretHash), undefined);
  const { errors } = await platform.ask('mutation { removeHost(name: "a") }');
  assert.match(errors![0]!.message, /No host "a" has joined\..*svc host list/);
  assert.deepEqual((await actions(platform)).slice(0, 3), ["host.remove a", "host.undrain a", "host.drain a"]);
});
