// May take 20 minutes.
/**
 * The chart's network policies on two real nodes, enforced: what a worker's code reaches from its Pod, and that it is the policy that keeps it from
 * the rest. The nodes' own network enforces none, so that is done by policies.ts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { aptInstall } from "../apt-install.ts";
import { eventually } from "../eventually.ts";
import { MACHINE } from "./cluster.ts";
import { type Installation, LONG_MS } from "./installation.ts";
import { onNodes } from "./on-nodes.ts";
import { PolicyEnforcer } from "./policies.ts";

const APP = `
import os, socket
from svc import Endpoint

def way(host, port):
    """ "there": somebody answered, if only that nobody listens."""
    with socket.socket() as link:
        link.settimeout(4)
        try:
            link.connect((host, port))
        except ConnectionRefusedError:
            pass
        except OSError as error:
            return type(error).__name__
        return "there"

def name(of):
    try:
        return socket.gethostbyname(of)
    except OSError as error:
        return type(error).__name__

@Endpoint(name="probe", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def probe(ways, of):
    return {"pod": os.uname().nodename, "ways": {key: way(*to) for key, to in ways.items()}, "name": name(of)}

@Endpoint(name="other", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def other():
    return {"pod": os.uname().nodename}
`;
/** Each endpoint has Pods of its own. */
const HOSTS = {
  grace: 5,
  disk: 2,
  pools: [{ name: "small", cpu: 1, memory: 2, warm: 0, max: 3, trust: "endpoint" }],
};
/** A machine on the nodes' network that is the cloud's metadata, and an address of the Internet. */
const FAR = "10.203.0.9";
const METADATA = "169.254.169.254";
const OUTSIDE = "203.0.113.9";
const CLOSED = "TimeoutError";

const isThere = onPath("nft", process.env.PATH ?? "") !== undefined;
const missing = process.env.SVC_TEST_NODES !== "network" || isThere ? undefined : await aptInstall("nftables");

await onNodes("On a cluster that enforces network policies", "network", (on) => {
  test("A worker reaches its platform, names and what is outside, and nothing else; without the policy it reaches all of it", {
    skip: missing ?? false,
  }, async (t) => {
    await far(on);
    t.after(() => runProcess("ip", ["netns", "del", "svck-far"]));
    const enforcer = new PolicyEnforcer(on.cluster, [1, 2], on.folder);
    enforcer.start();
    t.after(() => enforcer.stop());
    await on.install({ hosts: HOSTS });
    await on.deploy(APP);
    const { pod: otherPod } = await on.call("other", {});
    const [platform] = await on.platformPods();
    const other = (await on.hosts()).find(({ metadata }) => metadata.name === otherPod);
    const address = platform.status.podIP;
    const ways = {
      http: [address, 7878],
      hosts: [address, 7879],
      replicas: [address, 7880],
      "another host": [other.status.podIP, 7879],
      "the API server": [MACHINE, on.cluster.server.port],
      "its service": ["10.96.0.1", 443],
      "the node": [`10.203.0.1${other.spec.nodeName.at(-1)}`, 10250],
      metadata: [METADATA, 80],
      outside: [OUTSIDE, 80],
    };
    const of = "svc.apps.svc.cluster.local";
    const look = async () => {
      const { pod, ways: seen, name } = await on.call("probe", { ways, of });
      assert.notEqual(pod, otherPod);
      return { ...seen, name };
    };
    const open = { http: "there", hosts: "there", outside: "there", name: address };
    const closed = ["replicas", "another host", "the API server", "its service", "the node", "metadata"];
    const each = (value: string) => Object.fromEntries(closed.map((name) => [name, value]));
    assert.deepEqual(await look(), { ...open, ...each(CLOSED) }, enforcer.rules);
    t.diagnostic(`enforced by ${enforcer.rules.split("\n").length} lines of rules`);

    const policies = "/apis/networking.k8s.io/v1/namespaces/apps/networkpolicies";
    for (const name of ["svc", "svc-hosts"]) await on.cluster.server.done("DELETE", `${policies}/${name}`);
    await eventually(async () => assert.deepEqual(await look(), { ...open, ...each("there") }), LONG_MS).catch(
      (error) => on.told(error),
    );
  });
});

/** Addresses that no machine of the nodes' network has, beyond it. */
async function far(on: Installation): Promise<void> {
  const steps = [
    "ip netns del svck-far 2>/dev/null || true",
    "ip netns add svck-far",
    "ip -n svck-sw link add far type veth peer name eth0 netns svck-far",
    "ip -n svck-sw link set far master br0 up",
    "ip -n svck-far link set lo up",
    `ip -n svck-far addr add ${FAR}/24 dev eth0`,
    `ip -n svck-far addr add ${METADATA}/32 dev lo`,
    `ip -n svck-far addr add ${OUTSIDE}/32 dev lo`,
    "ip -n svck-far link set eth0 up",
    ...[1, 2].map((number) => `ip -n svck-far route add 10.204.${number}.0/24 via 10.203.0.1${number}`),
  ];
  const { code, stderr } = await runProcess("sh", ["-ec", steps.join("\n")]);
  assert.equal(code, 0, stderr);
  for (const number of [1, 2])
    for (const address of [METADATA, OUTSIDE])
      await on.cluster.on(number, ["ip", "route", "add", `${address}/32`, "via", FAR]);
}
