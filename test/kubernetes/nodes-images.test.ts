/**
 * Endpoints with images of their own on a real node: containers of containerd, whose images were brought without a registry. What their code finds,
 * what it cannot reach, and that no job is lost when a Pod is told to end or is gone.
 */
// May take 20 minutes.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { LONG_MS } from "./installation.ts";
import { onNodes } from "./on-nodes.ts";
import { puller } from "./puller.ts";

const APP = `
import os, socket, sys, time
import ownwords
from svc import Endpoint

@Endpoint(name="own", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, image="localhost/own:1")
def own(seconds=0):
    time.sleep(seconds)
    with open("/opt/own/greeting.txt") as file:
        greeting = file.read()
    return {"greeting": greeting, "words": ownwords.WORDS, "mode": os.environ.get("MODE"), "uid": os.getuid(),
            "pod": os.uname().nodename, "pid": os.getpid(), "kubernetes": os.environ.get("KUBERNETES_SERVICE_HOST")}

def tried(step):
    try:
        return step()
    except OSError as error:
        return type(error).__name__

def heard(path):
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(20)
    link.connect(path)
    try:
        return link.recv(4096).decode("latin1")
    except ConnectionError:
        return ""

def written(path):
    with open(path, "w"):
        return "written"

def listed(path):
    return tried(lambda: sorted(os.listdir(path)))

@Endpoint(name="attack", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, image="localhost/own:1")
def attack():
    programs = set()
    secrets = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                programs.add(file.read().split("\\0")[0])
            with open(f"/proc/{pid}/environ") as file:
                secrets += [one for one in file.read().split("\\0") if "=ey" in one or "svch_" in one]
        except OSError:
            pass
    shared = [os.path.join(folder, name) for folder, _, names in os.walk("/opt/svc/pod") for name in names]
    return {
        "token": listed("/var/run/secrets"),
        "agent": listed("/opt/svc/data"),
        "layers": sum(len(name) == 64 for name in os.listdir("/opt/svc/pod/layers")),
        "secrets": secrets + [path for path in shared if "token" in path or path.endswith("host.json") or path.endswith("launcher.json")],
        "nodes": sorted(one for one in programs if "node" in one or one.endswith("/svc")),
        "settings": tried(lambda: heard("/opt/svc/pod/run/boot.sock")),
        "written": [tried(lambda: written(path)) for path in ("/opt/svc/pod/python/svc/__init__.py", "/opt/svc/pod/run/x", "/opt/own/x")],
        "replaced": tried(lambda: os.unlink("/opt/svc/pod/run/agent.sock")),
        "root": tried(lambda: os.setuid(0)),
    }
`;
const PULLS = `
from svc import Endpoint

Endpoint(name="puller", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=1, protocol="pull", image="localhost/own:1",
    command=["python3", "-u", "puller.py"])
`;
const OTHER = (name: string, image: string) => `
from svc import Endpoint

@Endpoint(name="${name}", cpu="cpu3c-1-2", workers=(0, 1), image="${image}")
def run():
    return 1
`;
const HOSTS = { grace: 120, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, idle: 15, max: 4 }] };

/** Pods' processes are this machine's too. */
async function pidOf(argument: string): Promise<number> {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const args = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (args.includes(argument) && args.includes("\0join\0")) return Number(pid);
  }
  throw new Error(`no process has the argument ${argument}`);
}

await onNodes("Endpoints' own images on a node", "images", (on) => {
  const told = (error: unknown) => on.told(error);
  /** A job of so many seconds that runs, and the Pod where. */
  const runs = async (seconds: number) => {
    const status = await on.run("own", { seconds });
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"), LONG_MS).catch(told);
    const { data } = await (await on.endpoint("own")).send("/graphql", {
      query: "{ hosts { name workers { endpoint } } }",
    });
    const host = data.hosts.find(({ workers }: { workers: { endpoint: string }[] }) =>
      workers.some(({ endpoint }) => endpoint === "own"),
    );
    return { status, pod: host.name as string };
  };
  const podNames = async () => (await on.hosts()).map(({ metadata }) => metadata.name);

  test("Its function finds the files, packages and variables of its image, as an ordinary user, and a second start is a fork there", async (t) => {
    await on.install({ hosts: HOSTS });
    let at = performance.now();
    const seconds = () => `${((performance.now() - at) / 1000).toFixed(1)} s`;
    await on.deploy(APP);
    t.diagnostic(`deployed, with a Pod for each of two endpoints: ${seconds()}`);
    at = performance.now();
    const { pod, pid, ...seen } = await on.call("own", {});
    t.diagnostic(`first result: ${seconds()}`);
    assert.deepEqual(seen, {
      ...{ greeting: "hello\n", words: "a package of the image", mode: "own", uid: 7878, kubernetes: null },
    });
    assert.ok((await podNames()).includes(pod));
    await eventually(async () => {
      const { data } = await (await on.endpoint("own")).send("/graphql", {
        query: "{ hosts { name workers { endpoint } } }",
      });
      assert.deepEqual(data.hosts.find(({ name }: { name: string }) => name === pod)?.workers ?? [], []);
    }, LONG_MS);
    at = performance.now();
    const again = await on.call("own", {});
    t.diagnostic(`once more, after no worker was there: ${seconds()}`);
    if (again.pod === pod) assert.notEqual(again.pid, pid);
  });

  test("Its code reaches no token, no secret and no settings of its launcher, and can change nothing of the agent's", async () => {
    assert.deepEqual(await on.call("attack", {}), {
      ...{ token: "FileNotFoundError", agent: "FileNotFoundError", layers: 1, secrets: [], nodes: [], settings: "" },
      ...{ written: ["OSError", "OSError", "OSError"], replaced: "OSError", root: "PermissionError" },
    });
    // What a cluster's network enforces is given for these Pods as for all hosts; nodes of these tests have no such network.
    const { server } = on.cluster;
    const policy = await server.done("GET", "/apis/networking.k8s.io/v1/namespaces/apps/networkpolicies/svc-hosts");
    const { matchLabels } = policy.spec.podSelector;
    for (const { metadata } of await on.hosts())
      for (const [key, value] of Object.entries(matchLabels)) assert.equal(metadata.labels[key], value);
  });

  test("A Pod that is told to end lets its job finish; the job of one that is gone runs once more in another", async () => {
    const ending = await runs(10);
    await on.control("-n", "apps", "delete", "pod", ending.pod, "--wait=false");
    await eventually(async () => assert.equal((await ending.status()).status, "COMPLETED"), LONG_MS).catch(told);
    const { output, retries = 0 } = await ending.status();
    assert.deepEqual([output.pod, retries], [ending.pod, 0]);
    const gone = await runs(10);
    await on.control("-n", "apps", "delete", "pod", gone.pod, "--grace-period=0", "--force");
    await eventually(async () => assert.equal((await gone.status()).status, "COMPLETED"), LONG_MS).catch(told);
    assert.notEqual((await gone.status()).output.pod, gone.pod);
  });

  test("Its job goes on while the agent beside it is killed and started again", async () => {
    const { status, pod } = await runs(15);
    process.kill(await pidOf(`--name\0${pod}\0`), "SIGKILL");
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"), LONG_MS).catch(told);
    const { output, retries = 0 } = await status();
    assert.deepEqual([output.pod, retries], [pod, 0]);
    await eventually(async () => {
      const found = (await on.hosts()).find(({ metadata }) => metadata.name === pod);
      assert.equal(
        found?.status.containerStatuses.find(({ name }: { name: string }) => name === "host").restartCount,
        1,
      );
    }, LONG_MS).catch(told);
    assert.equal((await on.call("own", {})).words, "a package of the image");
  });

  test("A program that pulls its jobs runs in its image", async () => {
    await on.deploy(PULLS, "pulls", { "puller.py": puller("__import__('ownwords').WORDS") });
    assert.deepEqual(await on.call("puller", { n: 1 }), { n: 2, words: "a package of the image" });
  });

  test("An image that is nowhere, and one without python3, are told in words; Pods without work go", async () => {
    await eventually(async () => assert.deepEqual(await podNames(), []), LONG_MS).catch(told);
    const words = async (name: string, image: string, wanted: RegExp) => {
      on.write(OTHER(name, image), name);
      const { code, stderr } = await on.svc(["deploy", "--detach"], name);
      assert.equal(code, 0, stderr);
      await eventually(async () => {
        const { stdout, stderr: also } = await on.svc(["status"], name);
        assert.match(stdout + also, wanted);
      }, LONG_MS).catch(told);
      await on.svc(["undeploy", "--all", "--force"], name);
    };
    await words(
      "nowhere",
      "localhost/none:1",
      /waits for its Pod svc-small-\w+: its container waits: \w+: .*localhost\/none:1/,
    );
    await words("pythonless", "localhost/pause:1", /its (program ended|container waits): .*python3/);
  });

  test("After uninstalling no Pod is left", async () => {
    await on.uninstall();
    await eventually(async () => assert.deepEqual(await podNames(), []), LONG_MS);
  });
});
