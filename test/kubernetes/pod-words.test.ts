/** What a Pod waits for, in words, from the status as Kubernetes writes it; and the file of pools, with all that can be wrong in it. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { volumePathProblem } from "../../src/domain/volume.ts";
import { podWords, readPod } from "../../src/kubernetes/pod.ts";
import { madeDifferently, madeOf, podSpec } from "../../src/kubernetes/pod-spec.ts";
import { poolOf, readPoolsFile } from "../../src/kubernetes/pools-file.ts";
import { RELEASE } from "./release.ts";

const pod = (status: object, metadata: object = {}) =>
  readPod({ metadata: { name: "p", uid: "u", ...metadata }, spec: {}, status });
const container = (state: object, restartCount = 0) => ({
  conditions: [{ type: "PodScheduled", status: "True" }],
  containerStatuses: [{ name: "host", state, restartCount }],
});

test("A Pod's state is told in words", () => {
  const unschedulable = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message: "0/2 nodes are available: 2 Insufficient cpu.",
  };
  assert.equal(
    podWords(pod({ conditions: [unschedulable] })),
    "no node has room for it: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu",
  );
  const gated = { type: "PodScheduled", status: "False", reason: "SchedulingGated" };
  assert.equal(podWords(pod({ conditions: [gated] })), "its scheduling waits for a gate");
  const pull = { waiting: { reason: "ImagePullBackOff", message: 'Back-off pulling image "a"' } };
  assert.equal(podWords(pod(container(pull))), 'its container waits: ImagePullBackOff: Back-off pulling image "a"');
  const denied = "pull access denied, repository does not exist or may require authorization: authorization failed";
  assert.match(
    podWords(pod(container({ waiting: { reason: "ErrImagePull", message: denied } }))),
    /^its container waits: ErrImagePull: pull access denied.*hosts\.imagePullSecrets.*counts for Docker alone$/,
  );
  assert.equal(
    podWords(pod(container({ waiting: { reason: "ContainerCreating" } }))),
    "its container is being started",
  );
  assert.equal(podWords(pod(container({ running: { startedAt: "x" } }))), "it joins");
  assert.equal(podWords(pod(container({ running: {} }, 3))), "it joins again (restart 3)");
  const beside = pod({ containerStatuses: [{ state: { running: {} } }, { state: pull }] });
  assert.match(podWords(beside), /^its container waits: ImagePullBackOff/, "whichever container it is");
  const failed = { terminated: { reason: "Error", exitCode: 1, message: "a\nThe image has Python 3.6." } };
  const waits = { waiting: { reason: "CrashLoopBackOff" } };
  assert.equal(
    podWords(pod({ containerStatuses: [{ state: waits, lastState: failed, restartCount: 2 }] })),
    "its container waits: CrashLoopBackOff: The image has Python 3.6",
  );
  assert.equal(
    podWords(pod(container({ terminated: { reason: "OOMKilled", exitCode: 137 } }))),
    "its program ended: OOMKilled 137",
  );
  assert.equal(
    podWords(pod({ phase: "Failed", reason: "Evicted", message: "The node was low on memory." })),
    "it failed: Evicted: The node was low on memory.",
  );
  assert.equal(podWords(pod({}, { deletionTimestamp: "2026-01-01T00:00:00Z" })), "it is being deleted");
  assert.equal(podWords(pod({})), "it waits for a node");
});

test("The file of pools is read whole, and everything wrong in it is said at once", (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-pools-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, "pools.json");
  const read = (value: unknown) => {
    writeFileSync(file, typeof value === "string" ? value : JSON.stringify(value));
    return readPoolsFile(file);
  };
  const [pool] = read({
    ...RELEASE,
    pools: [{ name: "a", cpu: 2, memory: 4, gpu: 1, gpuType: "NVIDIA_L4", trust: "shared" }],
  }).pools;
  assert.deepEqual(poolOf(pool!, false), {
    ...{
      name: "a",
      vcpus: 2,
      memoryGb: 4,
      gpus: 1,
      gpuProduct: "NVIDIA L4",
      warm: 0,
      idleMs: 600_000,
      max: 10,
      trust: "shared",
      volumes: false,
    },
  });
  const wrong = {
    ...RELEASE,
    pools: [
      { name: "A_", cpu: -1, memory: 4, colour: "red" },
      { name: "b", cpu: 1, memory: 1, trust: "none" },
    ],
  };
  assert.throws(
    () => read(wrong),
    (error: Error) => {
      for (const words of [/pools\.0\.name/, /pools\.0\.cpu/, /colour/, /pools\.1\.trust/])
        assert.match(error.message, words);
      return true;
    },
  );
  assert.throws(
    () => read({ ...RELEASE, pools: [{ name: "a", cpu: 1, memory: 1, gpu: 1, gpuType: "GeForce 2" }] }),
    /no GPU of the catalogue/,
  );
  const twice = { name: "a", cpu: 1, memory: 1 };
  assert.throws(() => read({ ...RELEASE, pools: [twice, twice] }), /"a" is there twice/);
  assert.throws(() => read({ ...RELEASE, pools: [] }), /pools/);
  assert.throws(() => read("{"), /SVC_POOLS_FILE/);
  assert.throws(() => readPoolsFile(path.join(folder, "none.json")), /no such file/);
});

test("A Pod with volumes has each at its paths from the claim, beside the platform where that is on one node; its own folder is under none", () => {
  const { pools: _, ...file } = readPoolsOf({ volumes: { claim: "files", beside: { app: "svc" } } });
  const [pool] = readPoolsOf({}).pools;
  const volumes = [
    { app: "shop", environment: "production", name: "data", paths: ["/data"], readOnly: false },
    {
      app: "shop",
      environment: "production",
      name: "models",
      paths: ["/volumes/models", "/runpod-volume"],
      readOnly: true,
    },
  ];
  const facts = { file, pool: pool!, name: "p", audience: "a", ownerUid: "u", fingerprint: "f" };
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has it
  const made = podSpec({ ...facts, having: { holder: "volumes:x:1", volumes } }) as any;
  const [{ volumeMounts, env }] = made.spec.containers;
  assert.deepEqual(
    volumeMounts.filter(({ name }: { name: string }) => name === "volumes"),
    [
      { name: "volumes", mountPath: "/data", subPath: "shop/production/data", readOnly: false },
      { name: "volumes", mountPath: "/volumes/models", subPath: "shop/production/models", readOnly: true },
      { name: "volumes", mountPath: "/runpod-volume", subPath: "shop/production/models", readOnly: true },
    ],
  );
  for (const { name, mountPath } of volumeMounts)
    if (name !== "volumes")
      assert.notEqual(volumePathProblem(mountPath), undefined, `${mountPath} could be a volume's`);
  assert.equal(made.metadata.annotations["svc/holder"], "volumes:x:1");
  assert.equal(made.metadata.labels["svc/volumes"], "true");
  assert.ok(env.some(({ name }: { name: string }) => name === "SVC_VOLUMES_MOUNTED"));
  const [beside] = made.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution;
  assert.deepEqual(beside, { labelSelector: { matchLabels: { app: "svc" } }, topologyKey: "kubernetes.io/hostname" });
  const without = JSON.stringify(podSpec(facts));
  assert.doesNotMatch(without, /persistentVolumeClaim|affinity|VOLUMES_MOUNTED|svc\/holder/);
});

test("A Pod says what it was made of: other settings are told from another image, and neither from how many Pods there are", () => {
  const small = { name: "a", cpu: 1, memory: 2 };
  const of = (changes: object, settings: object = {}) => {
    const { pools, ...file } = readPoolsOf({ ...changes, pools: [{ ...small, ...settings }] });
    return { file, pool: pools[0]! };
  };
  const facts = { ...of({}), name: "p", audience: "a", ownerUid: "u", fingerprint: "f" };
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has it
  const made = podSpec(facts) as any;
  const { annotations } = made.metadata;
  const now = (...changes: Parameters<typeof of>) => madeDifferently(annotations, madeOf(of(...changes)));
  assert.equal(now({}), undefined);
  assert.equal(now({}, { warm: 3, idle: 5, max: 20 }), undefined);
  assert.equal(now({ image: "example.org/svc:2" }), "before");
  for (const settings of [
    { cpu: 2 },
    { trust: "shared" },
    { runtimeClassName: "gvisor" },
    { nodeSelector: { a: "b" } },
  ])
    assert.equal(now({}, settings), "otherwise", JSON.stringify(settings));
  assert.equal(now({ env: { A: "b" }, image: "example.org/svc:2" }), "otherwise");
  assert.equal(madeDifferently({}, madeOf(of({}))), "before", "an earlier release did not say it");
  const { volumeMounts } = made.spec.containers[0];
  assert.ok(volumeMounts.some(({ mountPath }: { mountPath: string }) => mountPath === "/dev/shm"));
  const shm = made.spec.volumes.find(({ name }: { name: string }) => name === "shm");
  assert.deepEqual(shm.emptyDir, { medium: "Memory", sizeLimit: "1024Mi" });
});

test("A Pod of an endpoint's own image has its token in the agent's container alone, the size of its worker, its volumes, and what its pool says", () => {
  const { pools: _, ...file } = readPoolsOf({ volumes: { claim: "files" } });
  const settings = { name: "a", cpu: 8, memory: 32, gpu: 4, gpuType: "NVIDIA_L4", runtimeClassName: "gvisor" };
  const more = {
    nodeSelector: { gpu: "l4" },
    tolerations: [{ key: "gpu" }],
    priorityClassName: "low",
    labels: { q: "r" },
  };
  const read = readPoolsOf({ pools: [{ ...settings, ...more }], imagePullSecrets: ["registry"] });
  const volumes = [{ app: "shop", environment: "production", name: "data", paths: ["/data"], readOnly: false }];
  const l4 = { product: "NVIDIA L4", emulated: false };
  const machine = { vcpus: 2, memoryGb: 4, hardware: { vcpus: 2, memoryGb: 4 }, gpus: [l4], emulatesGpu: false };
  const having = { holder: "volumes:x:1", volumes, own: { image: "example.org/own:1", machine } };
  const env = { PIP_INDEX_URL: "https://packages.example.org/simple", HOME: "/elsewhere" };
  const facts = { file: { ...file, env, imagePullSecrets: ["registry"] }, pool: read.pools[0]!, name: "p" };
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has it
  const made = podSpec({ ...facts, audience: "a", ownerUid: "u", fingerprint: "f", having }) as any;
  const [host, worker, ...others] = made.spec.containers;
  assert.deepEqual(others, []);
  const mounts = (container: typeof host) =>
    container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
  assert.ok(mounts(host).includes("/var/run/secrets/svc"));
  assert.deepEqual(mounts(worker), ["/opt/svc/pod", "/tmp", "/dev/shm", "/data"]);
  for (const mountPath of [...mounts(host), "/dev/shm"])
    assert.notEqual(volumePathProblem(mountPath), undefined, `${mountPath} could be a volume's`);
  assert.deepEqual(worker.resources.limits, {
    cpu: "2",
    memory: "4352Mi",
    "ephemeral-storage": "21Gi",
    "nvidia.com/gpu": "1",
  });
  assert.equal(host.resources.limits["nvidia.com/gpu"], undefined);
  assert.ok(
    host.env.some(
      ({ name, value }: { name: string; value: string }) => name === "SVC_POD_GPUS" && value === "NVIDIA L4",
    ),
  );
  const homes = host.env.filter(({ name }: { name: string }) => name in env);
  assert.deepEqual(homes, [
    { name: "PIP_INDEX_URL", value: env.PIP_INDEX_URL },
    { name: "HOME", value: "/opt/svc/data" },
  ]);
  assert.deepEqual(worker.env, [{ name: "HOME", value: "/tmp" }]);
  for (const { securityContext } of made.spec.containers)
    assert.deepEqual(securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  const { runtimeClassName, nodeSelector, tolerations, priorityClassName, imagePullSecrets } = made.spec;
  assert.deepEqual({ nodeSelector, tolerations, priorityClassName, labels: { q: made.metadata.labels.q } }, more);
  assert.deepEqual([runtimeClassName, imagePullSecrets], ["gvisor", [{ name: "registry" }]]);
  assert.equal(made.spec.shareProcessNamespace, undefined);
  assert.equal(made.metadata.labels["svc/release"], "svc", "the network's rules for hosts count for it");
});

function readPoolsOf(changes: object) {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-pools-"));
  const file = path.join(folder, "pools.json");
  writeFileSync(file, JSON.stringify({ ...RELEASE, pools: [{ name: "a", cpu: 1, memory: 1 }], ...changes }));
  try {
    return readPoolsFile(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
