/**
 * Endpoints with an image of their own in Pods: beside a real API server, with a played kubelet that runs the agent's container and the
 * image's as processes of this machine. test/kubernetes/nodes.test.ts has real containers.
 */
// May take 10 minutes.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { project } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { startInCluster } from "./installed.ts";
import { puller } from "./puller.ts";

const APP = (more = "", image = "example.org/own:1") => `
import os, time
from svc import Endpoint

@Endpoint(name="own", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, image="${image}"${more})
def run(n, seconds=0):
    time.sleep(seconds)
    return {"n": n + 1, "image": os.environ.get("PLAYED_IMAGE"), "pid": os.getpid(),
            "kubernetes": os.environ.get("KUBERNETES_SERVICE_HOST")}
`;
const PULLS = `
from svc import Endpoint

puller = Endpoint(name="puller", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=60, protocol="pull", image="example.org/own:1",
    command=["python3", "-u", "puller.py"])
`;
const SERVES = `
from svc import Endpoint

Endpoint(name="web", cpu="cpu3c-1-2", command=["python3", "-m", "http.server", "8127"], port=8127, workers=(0, 1), image="example.org/own:1")
`;
const POOL = { name: "small", cpu: 2, memory: 4, warm: 0, idle: 600, max: 3 };

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

describe("Pods of endpoints' own images", { skip }, () => {
  let server: ApiServer;
  before(async () => {
    assert.ok("program" in found);
    server = await ApiServer.start(found.program);
  });
  after(() => server?.stop());

  test("A Pod of the endpoint's size runs the image beside the agent; the second start is a fork there; its token is the agent's alone", async (t) => {
    const { platform, pods, kubelet, hosts } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": APP() });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    const call = async () => {
      const { stdout, stderr } = await platform.svc(["call", "own", "n=1"], { cwd: dir });
      return JSON.parse(stdout || JSON.stringify(stderr));
    };
    const first = await call();
    assert.deepEqual([first.n, first.image, first.kubernetes], [2, "example.org/own:1", null], JSON.stringify(first));
    const [pod] = await pods();
    const [host, worker] = pod.spec.containers;
    assert.deepEqual([worker.resources.limits.cpu, worker.resources.limits.memory], ["1", "2304Mi"]);
    assert.deepEqual(worker.resources.requests, worker.resources.limits);
    const mounted = (container: typeof host) => container.volumeMounts.map(({ name }: { name: string }) => name);
    assert.ok(mounted(host).includes("token"));
    assert.deepEqual(mounted(worker), ["pod", "scratch", "shm"]);
    assert.equal(worker.volumeMounts[0].readOnly, true);
    assert.equal(pod.spec.automountServiceAccountToken, false);
    assert.doesNotMatch(JSON.stringify(pod.spec), /svch_|svc_[A-Za-z0-9]{8}/, "no secret stands in it");
    await eventually(async () => assert.equal((await hosts())[0]?.workers.length, 0));
    const second = await call();
    assert.notEqual(second.pid, first.pid);
    assert.equal((await pods()).length, 1);
    // Another endpoint of the same environment and image gets another Pod.
    const other = project(t, { "app.py": APP().replace('name="own"', 'name="other"') });
    assert.equal((await platform.svc(["deploy", "--app", "other"], { cwd: other })).code, 0);
    assert.equal((await pods()).length, 2);
  });

  test("The job of a container that is killed runs once more there; one that is idle goes, and a call makes another", async (t) => {
    let held: object | undefined;
    const { platform, pods, kubelet } = await startInCluster(t, server, [{ ...POOL, idle: 6 }], { held: () => held });
    const dir = project(t, { "app.py": APP() });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    const [pod] = await pods();
    const began = kubelet.worker(pod.metadata.name)!;
    const called = platform.svc(["call", "own", "n=1", "seconds=3"], { cwd: dir });
    await eventually(async () => {
      const { stdout } = await platform.svc(["jobs", "own"], { cwd: dir });
      assert.match(stdout, /IN_PROGRESS/);
    });
    began.kill("SIGKILL");
    const { stdout, stderr } = await called;
    assert.equal(JSON.parse(stdout || "{}").n, 2, stderr + kubelet.said);
    await eventually(async () => assert.deepEqual(await pods(), []));
    const again = await platform.svc(["call", "own", "n=2"], { cwd: dir });
    assert.equal(JSON.parse(again.stdout || "{}").n, 3, again.stderr + kubelet.said);
    assert.notEqual((await pods())[0].metadata.uid, pod.metadata.uid);
    // A container that ends again and again is told although its Pod has joined.
    const ended = { terminated: { exitCode: 1, reason: "Error", message: "out of weights" } };
    const state = { waiting: { reason: "CrashLoopBackOff", message: "back-off 5m0s" } };
    const worker = { name: "worker", image: "i", imageID: "i", ready: false, restartCount: 4, state, lastState: ended };
    held = { phase: "Running", containerStatuses: [worker] };
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(stdout + stderr, /its container waits: CrashLoopBackOff: back-off 5m0s: out of weights/);
    });
  });

  test("A worker that pulls its jobs runs its command in the image", async (t) => {
    const { platform, kubelet } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": PULLS, "puller.py": puller("os.environ['PLAYED_IMAGE']") });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    const { stdout, stderr } = await platform.svc(["call", "puller", "n=1"], { cwd: dir });
    assert.deepEqual(JSON.parse(stdout || "{}"), { n: 2, words: "example.org/own:1" }, stderr + kubelet.said);
  });

  test("A server has a fixed port there: the network is the Pod's own", async (t) => {
    const { platform, kubelet } = await startInCluster(t, server, [POOL]);
    const dir = project(t, { "app.py": SERVES, "hello.txt": "hello" });
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr + kubelet.said);
    const [{ url }] = JSON.parse((await platform.svc(["status", "--json"], { cwd: dir })).stdout);
    const page = await platform.call(`${url}/hello.txt`);
    assert.deepEqual([page.status, page.text], [200, "hello"]);
  });

  test("An image that cannot be pulled is told in words, and so is what no Pod can have", async (t) => {
    const waiting = { reason: "ImagePullBackOff", message: 'Back-off pulling image "example.org/none:1"' };
    const held = {
      phase: "Pending",
      conditions: [{ type: "PodScheduled", status: "True" }],
      containerStatuses: [
        { name: "host", image: "i", imageID: "i", ready: true, restartCount: 0, state: { running: {} } },
        { name: "worker", image: "i", imageID: "", ready: false, restartCount: 0, state: { waiting } },
      ],
    };
    const { platform } = await startInCluster(t, server, [POOL], { held: () => held });
    const refused = async (more: string, wanted: RegExp) => {
      const dir = project(t, { "app.py": APP(more) });
      const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
      assert.notEqual(code, 0);
      assert.match(stderr, wanted);
    };
    const alone = project(t, {
      "app.py": `from svc import Endpoint\nEndpoint(name="alone", cpu="cpu3c-1-2", image="example.org/own:1", protocol="pull")\n`,
    });
    const { stderr: said } = await platform.svc(["deploy"], { cwd: alone });
    assert.match(
      said,
      /What the image "example.org\/own:1" runs by itself cannot be told its job in a Pod. Name its program: command=/,
    );
    await refused(
      ', system_dependencies=["ffmpeg"]',
      /cannot be installed into the image of a Pod.*leave system_dependencies= out/s,
    );
    const saved = await platform.call("/graphql", {
      body: {
        query: `mutation { saveRegistryAuth(input: { name: "models", username: "u", password: "p" }) { id } }`,
      },
    });
    assert.match(saved.text, /INVALID_SETTING/);
    assert.match(saved.text, /whose nodes pull them.*hosts\.imagePullSecrets of the chart/);
    assert.deepEqual(
      (await platform.query<{ myself: object }>("{ myself { containerRegistryCreds { id } } }")).myself,
      {
        containerRegistryCreds: [],
      },
    );
    const dir = project(t, { "app.py": APP("", "example.org/none:1") });
    const deploying = platform.svc(["deploy"], { cwd: dir });
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(["status"], { cwd: dir });
      assert.match(
        stdout + stderr,
        /waits for its Pod svc-small-\w+: its container waits: ImagePullBackOff: Back-off pulling image "example.org\/none:1"/,
      );
    });
    await platform.stop();
    await deploying;
  });
});
