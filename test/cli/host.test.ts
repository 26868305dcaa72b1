/** `svc host` against the real platform, and where machines have joined against a server that speaks the schema. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CTRL_C, openPseudoTerminal } from "./pseudo-terminal.ts";
import { sandbox } from "./run-svc.ts";
import { schemaServer } from "./schema-server.ts";

const box = await sandbox();

test("a join token is the command to paste, once; the list says what became of it; without a port it says what to do", async () => {
  const svc = async (...args: string[]) => {
    const outcome = await box.svc(args, { env: { SVC_WORKER_LISTEN: "tls://127.0.0.1:0" } });
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome;
  };
  await svc("platform", "start", "--port", "0");
  const { url } = JSON.parse((await svc("whoami", "--json")).stdout) as { url: string };
  const made = await svc("host", "token", "create", "gpu-1", "--ttl", "15m");
  const command = /^svc worker join '(\S+)#([0-9a-f]{64})' --token (svch_[\w-]{43}) --name gpu-1\n$/.exec(made.stdout);
  assert.ok(command, made.stdout);
  assert.equal(command[1], url);
  assert.match(made.stderr, /one machine, "gpu-1", for 15 min, until \d{4}-/);
  assert.match(made.stderr, /It is shown only now\. To take it back: svc host token revoke \w+/);
  assert.match(made.stderr, /port \d+\./);
  assert.match(made.stderr, /Only this machine itself reaches .*SVC_PUBLIC_URL/);
  const json = JSON.parse((await svc("host", "token", "create", "--reusable", "--json")).stdout);
  assert.equal(json.command, `svc worker join '${url}#${command[2]}' --token ${json.token}`);
  const list = await svc("host", "token", "list");
  assert.match(list.stdout, /^ID +FOR +STATE +EXPIRES/);
  assert.match(list.stdout, /any host +open/);
  assert.ok(!list.stdout.includes(json.token.slice(5)));
  assert.match(
    (await svc("host", "token", "revoke", json.id)).stdout,
    /is revoked\. Machines that joined with it stay\./,
  );
  assert.equal(JSON.parse((await svc("host", "token", "list", "--json")).stdout)[0].state, "revoked");
  assert.match((await svc("host", "list")).stderr, /No other machine has joined\. Next: svc host token create/);
  assert.deepEqual(JSON.parse((await svc("host", "list", "--json")).stdout), []);
  for (const [args, words] of [
    [["host", "token", "create", "GPU_1"], /cannot be the name of a host/],
    [["host", "token", "create", "--ttl", "soon"], /15m, 12h|30d, 12h or 90m/],
    [["host", "token", "create", "--ttl", "90d"], /1 second to 30 days/],
    [["host", "token", "revoke", "nobody"], /svc host token list/],
    [["host", "show", "nobody"], /No host "nobody" has joined/],
    [["host", "drain", "nobody"], /No host "nobody" has joined/],
    [["host", "remove", "nobody"], /No host "nobody" has joined/],
  ] as const) {
    const { code, stderr } = await box.svc(args);
    assert.notEqual(code, 0, args.join(" "));
    assert.match(stderr, words);
    assert.doesNotMatch(stderr, /^ +at /m);
  }
  await svc("platform", "stop", "--now");
  assert.equal((await box.svc(["platform", "start", "--port", "0"])).code, 0);
  const without = await box.svc(["host", "token", "create"]);
  assert.match(without.stderr, /no port for that.*SVC_WORKER_LISTEN=tls:\/\/0\.0\.0\.0:8788/s);
});

const worker = (id: string) => ({
  ...{ id, endpointId: "e1", endpoint: "paint", app: "studio", environment: "production", state: "RUNNING" },
  ...{ since: Date.now() - 90_000, vcpu: 2, memoryGb: 4, gpus: 1 },
});

const gpu = (index: number, workerId: string | null) => ({
  index,
  name: "NVIDIA A100-SXM4-80GB",
  memoryGb: 80,
  workerId,
});

/** Two machines: one with workers that go one by one once it drains, one that is away. */
async function withHosts() {
  const far = {
    ...{ id: "h2", name: "basement", state: "away", draining: false, since: Date.now() - 7_200_000, joinedAt: 1 },
    ...{ lastSeenAt: 1, labels: [], arch: "x64", version: "0.1.0", driver: "docker", sharedVolumes: false },
    ...{ vcpu: null, memoryGb: null, gpus: [], workers: [], problems: [] },
  };
  const near = {
    ...{ id: "h1", name: "gpu-node-with-a-name", state: "joined", draining: false, since: Date.now(), joinedAt: 1 },
    ...{ lastSeenAt: 1, labels: ["gpu-a100", "rack.1"], arch: "x64", version: "0.1.0", driver: "process" },
    ...{ sharedVolumes: true, vcpu: { total: 32, promised: 6 }, memoryGb: { total: 128.04, promised: 12 } },
    gpus: [gpu(0, "w-1"), gpu(1, "w-2"), gpu(2, null)],
    workers: [worker("w-1"), worker("w-2"), worker("w-3")],
    problems: ["Its clock is 3 s behind the platform's."],
  };
  const done: string[] = [];
  let stuck = false;
  const server = await schemaServer([], {
    hosts: () => {
      const shown = [{ ...far }, { ...near, workers: [...near.workers] }];
      if (near.draining && !stuck) near.workers.pop();
      return done.includes("remove") ? [shown[0]] : shown;
    },
    series: ({ host, metric }: { host: string; metric: string }) => {
      const values = host === "basement" || metric === "machine.gpuUsed" ? [null] : [1, null, 4];
      return { metric, unit: "", stepMs: 60_000, points: values.map((value, at) => ({ at, value })) };
    },
    drainHost: ({ on }: { on: boolean }) => {
      done.push(`drain ${on}`);
      Object.assign(near, { draining: on, state: on ? "draining" : "joined" });
      return { ...near, workers: [...near.workers] };
    },
    removeHost: () => {
      done.push("remove");
      return true;
    },
  });
  const env = { PLATFORM_URL: server.url, PLATFORM_API_KEY: "svc_test" };
  return {
    done,
    env,
    svc: (...args: string[]) => box.svc(["host", ...args], { env }),
    /** Workers do not end. */
    hold: () => {
      stuck = true;
    },
    terminal: (...args: string[]) =>
      openPseudoTerminal([process.execPath, ...box.command(["host", ...args])], {
        cwd: box.cwd,
        env: { ...box.env, ...env },
      }),
  };
}

test("hosts are a table of at most 80 columns, with what is free and what is wrong; one is shown with its workers", async (t) => {
  const { svc, terminal } = await withHosts();
  const shown = terminal("list");
  t.after(() => shown.close());
  assert.equal(await shown.ended, 0);
  for (const line of shown.text.split("\n")) assert.ok(line.length <= 80, `${line.length}: ${line}`);
  assert.match(shown.text, /gpu-node-with-a-name +joined +3 +26\/32 +116\/128 +1\/3/);
  assert.match(shown.text, /basement +away 2 h +0 +- +- +-/);
  const { stdout, stderr } = await svc("list");
  assert.match(stdout, /gpu-a100, rack\.1/);
  assert.match(stderr, /gpu-node-with-a-name: Its clock is 3 s behind/);
  const one = await svc("show", "gpu-node-with-a-name");
  assert.match(one.stdout, /GPUs +1\/3 free: 3 × NVIDIA A100-SXM4-80GB/);
  assert.match(one.stdout, /Problem +Its clock/);
  assert.match(one.stdout, /Last hour +2\.5 vCPU \(at most 4\), 2\.5 GB \(at most 4\) busy/);
  assert.deepEqual(JSON.parse((await svc("show", "gpu-node-with-a-name", "--json")).stdout).lastHour, {
    vcpu: { mean: 2.5, most: 4 },
    memoryGb: { mean: 2.5, most: 4 },
    gpus: null,
  });
  assert.match(one.stdout, /w-1 +paint +studio\/production +RUNNING +2 +4 +1 +2 min/);
  assert.match((await svc("show", "basement")).stdout, /away 2 h[\s\S]*not heard of since[\s\S]*No workers run there/);
  assert.match((await svc("show", "attic")).stderr, /No host "attic" has joined\.[\s\S]*basement, gpu-node/);
  assert.equal(JSON.parse((await svc("list", "--json")).stdout)[1].workers.length, 3);
});

test("a drain shows how many workers are left until none is, and Ctrl+C says that it goes on", async (t) => {
  const hosts = await withHosts();
  const shown = hosts.terminal("drain", "gpu-node-with-a-name");
  t.after(() => shown.close());
  await shown.shows(/drains: 3 workers left/);
  await shown.shows(/drains: 1 worker left/);
  assert.equal(await shown.ended, 0);
  assert.match(shown.text, /No worker runs there any more\.[\s\S]*svc host remove gpu-node-with-a-name/);
  assert.match((await hosts.svc("drain", "gpu-node-with-a-name", "--off")).stdout, /gets workers again/);

  const held = await withHosts();
  held.hold();
  const cut = held.terminal("drain", "gpu-node-with-a-name");
  t.after(() => cut.close());
  await cut.shows(/drains: 3 workers left/);
  cut.type(CTRL_C);
  assert.equal(await cut.ended, 130);
  assert.match(cut.text, /goes on draining\. It gets workers again with: svc host drain gpu-node-with-a-name --off/);
  assert.deepEqual(held.done, ["drain true"]);
  const { stdout } = await held.svc("drain", "gpu-node-with-a-name", "--no-wait");
  assert.match(stdout, /3 workers still run there/);
});

test("a host with workers is removed after a question, or with --yes where nobody can be asked", async (t) => {
  const { svc, terminal, done } = await withHosts();
  const refused = await svc("remove", "gpu-node-with-a-name");
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /3 workers run on .*nobody can be asked[\s\S]*svc host drain .*--yes/);
  for (const [answer, words] of [
    ["\r", /Nothing was removed\. To let them finish first: svc host drain/],
    ["y\r", /Removed gpu-node-with-a-name\. Its agent is refused/],
  ] as const) {
    assert.deepEqual(done, []);
    const shown = terminal("remove", "gpu-node-with-a-name");
    t.after(() => shown.close());
    await shown.shows(/Remove it all the same\? \[y\/N\]/);
    shown.type(answer);
    assert.equal(await shown.ended, 0);
    assert.match(shown.text, words);
  }
  assert.match((await svc("remove", "basement", "--yes")).stdout, /Removed basement/);
});
