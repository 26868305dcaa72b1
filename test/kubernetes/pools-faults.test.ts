/** What becomes of a platform's Pods, and of what runs in them, when the API server, a node, or the platform itself is away. */
// May take 15 minutes.
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { project, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { startInCluster } from "./installed.ts";
import { RELEASE, RULES } from "./release.ts";

const APP = (...names: string[]) => `
import time
from svc import Endpoint
${names
  .map(
    (name) => `
@Endpoint(name="${name}", cpu="cpu3c-1-2", workers=(0, 2), idle_timeout=1)
def ${name}(n, seconds=0):
    time.sleep(seconds)
    return n + 1
`,
  )
  .join("")}`;
const POOL = { name: "small", cpu: 2, memory: 4, warm: 0, idle: 600, max: 3 };
const LONG_MS = 240_000;

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

describe("Pods as hosts, when something fails", { skip }, () => {
  let server: ApiServer;
  before(async () => {
    if ("program" in found) server = await ApiServer.start(found.program);
  });
  after(() => server?.stop());

  test("While the API server is away calls go on, and further endpoints start in the Pod that is there", async (t) => {
    const { platform, pods } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": APP("one", "two") });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr);
    const call = async (name: string) => {
      const { stdout, stderr } = await platform.svc(["call", name, "n=1"], { cwd: dir });
      assert.equal(stdout.trim(), "2", stderr);
    };
    await call("one");
    const [before] = await pods();
    await server.down();
    try {
      await eventually(async () => {
        const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
        assert.match(stdout + stderr, /The API server of Kubernetes cannot be used/);
      });
      await call("one");
      await call("two");
    } finally {
      await server.up();
    }
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.doesNotMatch(stdout + stderr, /API server/);
    }, LONG_MS);
    assert.deepEqual(
      (await pods()).map(({ metadata }) => metadata.uid),
      [before.metadata.uid],
    );
  });

  test("An API server that answers nothing for a while is no reason to make more Pods than are needed", async (t) => {
    const { platform, pods, joined } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": APP("slow") });
    server.signal("SIGSTOP");
    const deploying = platform.svc(["deploy"], { cwd: dir });
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(
        stdout + stderr,
        /The pool small gets no further Pods: |The API server of Kubernetes cannot be used/,
      );
    }, LONG_MS).finally(() => server.signal("SIGCONT"));
    const { code, stderr } = await deploying;
    assert.equal(code, 0, stderr);
    await joined(1);
    assert.equal((await platform.svc(["call", "slow", "n=1"], { cwd: dir })).stdout.trim(), "2");
    assert.equal((await pods()).length, 1);
  });

  for (const [how, leave, back] of [
    ["is away", () => server.down(), () => server.up()],
    ["answers nothing", () => server.signal("SIGSTOP"), () => server.signal("SIGCONT")],
  ] as const) {
    test(`A platform that is killed and starts again while the API server ${how} calls what runs, and starts further endpoints in the Pod that is there`, async (t) => {
      const port = await freePort();
      const listen = { SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}` };
      const { platform, restart, kubelet } = await startInCluster(t, server, [POOL], {}, listen);
      const dir = project(t, { "app.py": APP("one", "two") });
      const deployed = await platform.svc(["deploy"], { cwd: dir });
      assert.equal(deployed.code, 0, deployed.stderr);
      const endpoint = (await platform.endpoints()).find(({ name }) => name === "one")!;
      const job = await platform.call(`${endpoint.url}/run`, { body: { input: { n: 1, seconds: 4 } } });
      const status = async (on = platform) => (await on.call(`${endpoint.url}/status/${job.json.id}`)).json;
      await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"));
      await leave();
      try {
        await platform.kill();
        const again = await restart();
        await eventually(async () => assert.equal((await status(again)).status, "COMPLETED", kubelet.said));
        const { output, retries = 0 } = await status(again);
        assert.deepEqual([output, retries], [2, 0]);
        for (const name of ["one", "two"]) {
          const { stdout, stderr } = await again.svc(["call", name, "n=1"], { cwd: dir });
          assert.equal(stdout.trim(), "2", stderr + kubelet.said);
        }
        await eventually(async () => {
          const { stdout, stderr } = await again.svc(["status"], { cwd: dir });
          assert.match(stdout + stderr, /The API server of Kubernetes cannot be used/);
        });
      } finally {
        await back();
      }
    });
  }

  test("A platform that starts again at another port runs calls of endpoints whose workers look for it at the old one", async (t) => {
    // Port 0: another one each time.
    const { platform, restart, kubelet } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": APP("one").replace("workers=(0, 2), idle_timeout=1", "workers=(0, 1)") });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr);
    const [endpoint] = await platform.endpoints();
    const job = await platform.call(`${endpoint!.url}/run`, { body: { input: { n: 5, seconds: 2 } } });
    const status = async (on = platform) => (await on.call(`${endpoint!.url}/status/${job.json.id}`)).json;
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"));
    await server.down();
    try {
      await platform.kill();
      const again = await restart();
      const { stdout, stderr } = await again.svc(["call", "one", "n=1"], { cwd: dir });
      assert.equal(stdout.trim(), "2", stderr + kubelet.said);
      await eventually(async () => assert.equal((await status(again)).status, "COMPLETED"));
      assert.equal((await status(again)).output, 6);
    } finally {
      await server.up();
    }
  });

  test("A platform that starts while the API server is away gives a warm Pod to the environment that needs one", async (t) => {
    const port = await freePort();
    const listen = { SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}` };
    const { platform, restart, joined } = await startInCluster(t, server, [{ ...POOL, warm: 1 }], {}, listen);
    await joined(1);
    await server.down();
    try {
      await platform.kill();
      const again = await restart();
      await joined(1, again);
      const dir = project(t, { "app.py": APP("late") });
      const { code, stderr } = await again.svc(["deploy"], { cwd: dir });
      assert.equal(code, 0, stderr);
      assert.equal((await again.svc(["call", "late", "n=1"], { cwd: dir })).stdout.trim(), "2");
    } finally {
      await server.up();
    }
  });

  test("With other settings of its pool, or another image, Pods that nobody uses are made anew; what runs in one goes on, and nothing more starts there", async (t) => {
    const port = await freePort();
    const listen = { SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}` };
    const pool = { ...POOL, warm: 1 };
    const at = await startInCluster(t, server, [pool], {}, listen);
    const dir = project(t, { "app.py": APP("stays").replaceAll("idle_timeout=1", "idle_timeout=600") });
    await at.joined(1);
    assert.equal((await at.platform.svc(["deploy"], { cwd: dir })).code, 0);
    const call = async (on: typeof at.platform, name: string) =>
      assert.equal((await on.svc(["call", name, "n=1"], { cwd: dir })).stdout.trim(), "2");
    await call(at.platform, "stays");
    const runsOn = async (on: typeof at.platform, endpoint: string) =>
      (await at.hosts(on)).flatMap(({ name, workers }) =>
        workers.some((one) => one.endpoint === endpoint) ? [name] : [],
      );
    const [held] = await runsOn(at.platform, "stays");
    await at.joined(2);
    const sizeOf = (pod: { spec: { containers: { image: string; resources: { limits: { cpu: string } } }[] } }) =>
      `${pod.spec.containers[0]!.resources.limits.cpu} ${pod.spec.containers[0]!.image}`;
    const beginAgain = async (on: typeof at.platform, changed: object, more: object = {}) => {
      await on.kill();
      writeFileSync(at.file, JSON.stringify({ ...RELEASE, ...more, pools: [{ ...pool, ...changed }] }));
      return at.restart();
    };
    const other = await beginAgain(at.platform, { cpu: 1, memory: 2 });
    await eventually(async () => {
      const others = (await at.pods()).filter(({ metadata }) => metadata.name !== held);
      assert.deepEqual([...new Set(others.map(sizeOf))], ["1 svc/platform"]);
    }, LONG_MS);
    await call(other, "stays");
    assert.deepEqual(await runsOn(other, "stays"), [held]);
    writeFileSync(path.join(dir, "app.py"), APP("stays", "comes"));
    const { code, stderr } = await other.svc(["deploy"], { cwd: dir });
    assert.equal(code, 0, stderr);
    await call(other, "comes");
    assert.notDeepEqual(await runsOn(other, "comes"), [held]);
    await eventually(async () => {
      const names = (await at.pods()).map(({ metadata }) => metadata.name);
      assert.ok(!names.includes(held), "new code runs in new Pods, and the old one is empty");
    }, LONG_MS);
    const next = await beginAgain(other, { cpu: 1, memory: 2 }, { image: "svc/platform:2" });
    await eventually(async () => {
      const images = (await at.pods()).map(sizeOf);
      assert.ok(images.includes("1 svc/platform:2"), `${images}`);
    }, LONG_MS);
    await call(next, "stays");
    await call(next, "comes");
  });

  test("With every write refused what is there goes on, further endpoints start, and the refusal is said in words", async (t) => {
    const { platform, pods, namespace, joined } = await startInCluster(t, server, [{ ...POOL, max: 2, warm: 1 }]);
    await joined(1);
    const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles/svc`;
    const [readPods, ...others] = RULES;
    const rules = [{ ...readPods, verbs: ["list", "watch"] }, ...others];
    await server.done("PATCH", role, { rules }, { type: "application/merge-patch+json" });
    const dir = project(t, { "app.py": APP("one", "two") });
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 0, stderr);
    for (const name of ["one", "two"])
      assert.equal((await platform.svc(["call", name, "n=1"], { cwd: dir })).stdout.trim(), "2");
    assert.equal((await pods()).length, 1);
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(stdout + stderr, /The pool small gets no further Pods: pods is forbidden: .*cannot create resource/);
    });
  });

  test("What admission refuses is said in its own words, and the Pod is made once it is allowed", async (t) => {
    const { platform, where, pods } = await startInCluster(t, server, [POOL]);
    const limits = [{ type: "Container", max: { cpu: "1" } }];
    await server.done("POST", `${where}/limitranges`, { metadata: { name: "small" }, spec: { limits } });
    const dir = project(t, { "app.py": APP("one") });
    const deploying = platform.svc(["deploy"], { cwd: dir });
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(
        stdout + stderr,
        /The pool small gets no further Pods: .*maximum cpu usage per Container is 1, but limit is 2/,
      );
    });
    assert.deepEqual(await pods(), []);
    await server.done("DELETE", `${where}/limitranges/small`);
    const { code, stderr } = await deploying;
    assert.equal(code, 0, stderr);
  });

  test("An endpoint whose own Pod is refused keeps no other from one", async (t) => {
    const { platform, where, pods } = await startInCluster(t, server, [POOL]);
    // The agent beside an endpoint's own image asks for less.
    const limits = [{ type: "Container", min: { cpu: "1" } }];
    await server.done("POST", `${where}/limitranges`, { metadata: { name: "large" }, spec: { limits } });
    const own = project(
      t,
      {
        "app.py": APP("own").replace("idle_timeout=1", 'idle_timeout=1, image="example.org/own:1"'),
      },
      "images",
    );
    const deploying = platform.svc(["deploy"], { cwd: own });
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: own });
      assert.match(stdout + stderr, /The pool small gets no further Pods: .*minimum cpu usage per Container is 1/);
    });
    const dir = project(t, { "app.py": APP("one") });
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 0, stderr);
    assert.equal((await pods()).length, 1);
    await server.done("DELETE", `${where}/limitranges/large`);
    await eventually(async () => assert.equal((await pods()).length, 2), LONG_MS);
    await platform.stop();
    await deploying;
  });

  test("An endpoint with volumes gets a Pod with their folders and no warm one; where they are not mounted its code does not run, and that is said", async (t) => {
    const volumesDir = tempDir(t);
    const more = { volumes: { claim: "files" } };
    const env = { SVC_VOLUMES_DIR: volumesDir };
    const { platform, pods, joined } = await startInCluster(t, server, [{ ...POOL, warm: 1 }], {}, env, more);
    const [warm] = await joined(1);
    const text = `
from svc import Endpoint, Volume

@Endpoint(name="keeps", cpu="cpu3c-1-2", workers=(0, 1), volumes={"/mnt/svc-none": Volume("notes", read_only=True)})
def keeps():
    return 1
`;
    const dir = project(t, { "app.py": text }, "shop");
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.notEqual(code, 0);
    assert.match(stderr, /The volume "notes" is not mounted where its workers run/);
    const made = (await pods()).filter(({ metadata }) => metadata.name !== warm!.name);
    const its = made.find(({ metadata }) => metadata.annotations?.["svc/holder"] !== undefined);
    const mounts = its.spec.containers[0].volumeMounts.filter(({ name }: { name: string }) => name === "volumes");
    const subPath = "shop/production/notes";
    assert.deepEqual(mounts, [{ name: "volumes", mountPath: "/mnt/svc-none", subPath, readOnly: true }]);
    assert.ok(existsSync(path.join(volumesDir, subPath)), "made by the platform: a kubelet would make it as root");
    assert.equal(made.length, 1, "another would fail the same");
  });

  test("An image that cannot be pulled is said in words, and the Pod is used once it could be", async (t) => {
    let isThere = false;
    const waiting = { reason: "ImagePullBackOff", message: 'Back-off pulling image "svc/platform"' };
    const containerStatuses = [
      { name: "host", image: "i", imageID: "", ready: false, restartCount: 0, state: { waiting } },
    ];
    const scheduled = { type: "PodScheduled", status: "True" };
    const held = { phase: "Pending", conditions: [scheduled], containerStatuses };
    const { platform } = await startInCluster(t, server, [POOL], { held: () => (isThere ? undefined : held) });
    const dir = project(t, { "app.py": APP("pulled") });
    const deploying = platform.svc(["deploy"], { cwd: dir });
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(
        stdout + stderr,
        /The pool small waits for its Pod svc-small-\w+: its container waits: ImagePullBackOff: Back-off pulling image "svc\/platform"/,
      );
    });
    isThere = true;
    const { code, stderr } = await deploying;
    assert.equal(code, 0, stderr);
    assert.equal((await platform.svc(["call", "pulled", "n=1"], { cwd: dir })).stdout.trim(), "2");
  });

  test("A Pod that somebody deletes lets its job finish, and the next call gets another Pod", async (t) => {
    const { platform, pods, where } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": APP("left") });
    assert.equal((await platform.svc(["deploy"], { cwd: dir })).code, 0);
    const [endpoint] = await platform.endpoints();
    const job = await platform.call(`${endpoint!.url}/run`, { body: { input: { n: 1, seconds: 3 } } });
    const status = async () => (await platform.call(`${endpoint!.url}/status/${job.json.id}`)).json;
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"));
    const [pod] = await pods();
    await server.done("DELETE", `${where}/pods/${pod.metadata.name}`, { gracePeriodSeconds: 60 });
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"));
    const done = await status();
    assert.deepEqual([done.output, done.retries ?? 0], [2, 0]);
    assert.equal((await platform.svc(["call", "left", "n=2"], { cwd: dir })).stdout.trim(), "3");
    await eventually(async () => {
      const names = (await pods()).map(({ metadata }) => metadata.name);
      assert.ok(names.length === 1 && names[0] !== pod.metadata.name, String(names));
    });
  });
});
