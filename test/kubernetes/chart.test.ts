/** The Helm chart: what it renders is what the API server takes, and what the platform reads; wrong values are named; what is stored outlives upgrades. */
// May take 10 minutes.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { givenKey } from "../../src/domain/api-key.ts";
import { VERSION } from "../../src/domain/version.ts";
import { podSpec } from "../../src/kubernetes/pod-spec.ts";
import { readPoolsFile } from "../../src/kubernetes/pools-file.ts";
import { dialledAddress, tlsAddress } from "../../src/server/addresses.ts";
import { tempDir } from "../e2e/platform.ts";
import { ApiServer } from "./api-server.ts";
import { findHelm, findKubernetes } from "./find.ts";
import { CHART, Helm, VERSION as KUBERNETES, NEEDED, placeOf } from "./helm.ts";
import { preparePodMachines } from "./pod-machines.ts";
import { RELEASE, RULES } from "./release.ts";

interface Resources {
  readonly resources: { readonly claims?: readonly { name: string }[]; readonly limits: Record<string, string> };
}

const CLAIMS = [{ name: "gpu", resourceClaimTemplateName: "one-l4" }];
const FULL = {
  image: { repository: "registry.example.com/svc", tag: "1", pullPolicy: "Always", pullSecrets: ["pull"] },
  postgres: { ...NEEDED.postgres, passwordSecret: { name: "database", key: "pw" } },
  s3: {
    ...{ bucket: "layers", endpoint: "http://s3.example.org", region: "eu-1", prefix: "svc" },
    keysSecret: { name: "s3", idKey: "id", secretKey: "secret" },
  },
  sealingSecret: { name: "sealing", key: "keys" },
  firstKeySecret: { name: "mine", key: "first" },
  platform: {
    ...{ replicas: 2, publicUrl: "https://svc.example.org", disk: 40, env: { SVC_DOMAIN: "example.org" } },
    nodeSelector: { pool: "platform" },
    tolerations: [{ key: "a", operator: "Exists" }],
    affinity: { nodeAffinity: {} },
    ...{ priorityClassName: "system-cluster-critical", labels: { team: "ml" } },
  },
  service: { type: "LoadBalancer", port: 80, annotations: { a: "b" } },
  serviceAccount: { annotations: { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/svc" } },
  hosts: {
    grace: 60,
    disk: 10,
    env: { PIP_INDEX_URL: "https://packages.example.org/simple" },
    imagePullSecrets: ["models"],
    pools: [
      { name: "small", cpu: 1, memory: 2, warm: 1 },
      { name: "gpu", cpu: 8, memory: 64, gpu: 1, gpuType: "NVIDIA_L4", nodeSelector: { gpu: "l4" }, max: 4 },
      { name: "claims", cpu: 8, memory: 64, gpu: 1, gpuType: "NVIDIA_L4", resourceClaims: CLAIMS },
    ],
  },
  volumes: { size: "10Gi", storageClass: "nfs" },
  networkPolicy: { allow: ["10.1.2.0/24"] },
  metrics: {
    serviceMonitor: true,
    labels: { release: "prometheus" },
    interval: "15s",
    keySecret: { name: "metrics", key: "key" },
  },
};
const ONE_NODE = { ...NEEDED, platform: { replicas: 1 }, volumes: { claim: "mine", accessMode: "ReadWriteOnce" } };
const V6 = { ...NEEDED, platform: { ipFamily: "IPv6" } };
const KEYS = { ...NEEDED, s3: { bucket: "layers", accessKeyId: "a", secretAccessKey: "b" } };

const helm = findHelm();
const kubernetes = findKubernetes();
const withoutHelm = "missing" in helm ? helm.missing : false;
const skip = withoutHelm || ("missing" in kubernetes && kubernetes.missing);

test("The chart has the platform's version", () => {
  const text = readFileSync(path.join(CHART, "Chart.yaml"), "utf8");
  assert.deepEqual(
    [...text.matchAll(/^(?:appV|v)ersion: (.*)$/gm)].map(([, version]) => version),
    [VERSION, VERSION],
  );
});

describe("The chart as Helm renders it", { skip: withoutHelm }, () => {
  const opened = (t: Parameters<typeof tempDir>[0]) => new Helm("program" in helm ? helm.program : "", tempDir(t));

  test("Helm's own check finds nothing in it", async (t) => {
    for (const values of [NEEDED, FULL, KEYS, ONE_NODE, V6]) await opened(t).done(["lint", "--strict", CHART], values);
  });

  test("Values that are missing, unknown or of another kind are named", async (t) => {
    const wrong: [object, RegExp][] = [
      [{}, /postgres/],
      [{ postgres: NEEDED.postgres }, /bucket/],
      [{ ...NEEDED, postgres: { url: "mysql://x" } }, /postgres.*url|\/postgres\/url/],
      [{ ...NEEDED, colour: "red" }, /colour/],
      [{ ...NEEDED, image: { tag: 3 } }, /image.*tag/],
      [{ ...NEEDED, platform: { replicas: 0 } }, /replicas/],
      [{ ...NEEDED, platform: { env: { SVC_DOMAIN: 1 } } }, /SVC_DOMAIN/],
      [{ ...NEEDED, service: { type: "Headless" } }, /service.*type/],
      [{ ...NEEDED, hosts: { pools: [] } }, /pools/],
      [{ ...NEEDED, hosts: { imagePullSecrets: [1] } }, /imagePullSecrets/],
      [{ ...NEEDED, hosts: { pools: [{ name: "a", cpu: 1 }] } }, /memory/],
      [{ ...NEEDED, hosts: { pools: [{ name: "a", cpu: 1, memory: 1, trust: "none" }] } }, /trust/],
      [{ ...NEEDED, volumes: { size: "ten" } }, /volumes.*size/],
      [{ ...ONE_NODE, platform: { replicas: 3 } }, /one node: set platform.replicas to 1/],
      [{ ...NEEDED, metrics: { serviceMonitor: true } }, /keySecret/],
      [{ ...NEEDED, s3: { ...KEYS.s3, secretAccessKey: "" } }, /s3.secretAccessKey: the other half of s3.accessKeyId/],
      [{ ...NEEDED, s3: { ...KEYS.s3, accessKeyId: "" } }, /s3.accessKeyId: the other half of s3.secretAccessKey/],
      [{ ...NEEDED, hosts: { pools: [{ name: "a", cpu: 1, memory: 1, warm: 1_001 }] } }, /warm/],
      [{ ...NEEDED, platform: { ipFamily: "IPv5" } }, /ipFamily/],
    ];
    const one = opened(t);
    for (const [values, words] of wrong) {
      const { code, stderr } = await one.run(["template", "svc", CHART, ...KUBERNETES], values);
      assert.notEqual(code, 0, JSON.stringify(values));
      assert.match(stderr, words);
    }
  });

  test("The platform reads the pools that it renders, with the names of its other objects", async (t) => {
    const objects = await opened(t).template("apps", FULL, "second-release");
    const { yaml } = objects.find(({ kind }) => kind === "ConfigMap")!;
    const file = path.join(tempDir(t), "pools.json");
    writeFileSync(file, yaml.slice(yaml.indexOf("pools.json: |") + "pools.json: |".length));
    const read = readPoolsFile(file);
    assert.deepEqual(
      [read.release, read.owner, read.platform, read.serviceAccount, read.image, read.pools.map(({ name }) => name)],
      [
        ...["second-release", "second-release-hosts", "http://second-release-hosts.apps.svc:7878"],
        ...["second-release-host", "registry.example.com/svc:1", ["small", "gpu", "claims"]],
      ],
    );
    assert.deepEqual(read.env, { PIP_INDEX_URL: "https://packages.example.org/simple" });
    assert.deepEqual(read.pools.at(-1)!.resourceClaims, CLAIMS);
    assert.equal(read.imagePullSecrets.at(-1), "models", "for the images of endpoints");
    assert.deepEqual(read.volumes, { claim: "second-release-volumes" });
    const names = objects.map(({ kind, name }) => `${kind} ${name}`);
    for (const one of [
      "ServiceAccount second-release-host",
      "Service second-release-hosts",
      "PersistentVolumeClaim second-release-volumes",
      "PodDisruptionBudget second-release",
    ])
      assert.ok(names.includes(one), names.join("\n"));
  });

  test("On a volume of one node the next platform's Pod is put where Pods with volumes are, unless values say another place", async (t) => {
    const one = opened(t);
    const platform = async (values: object) =>
      (await one.template("apps", values, "mine")).find(({ kind }) => kind === "Deployment")!.yaml;
    const yaml = await platform(ONE_NODE);
    const terms = yaml.slice(yaml.indexOf("affinity:"), yaml.indexOf("topologySpreadConstraints"));
    const [release] = /svc\/release: .*/.exec(terms) ?? [];
    const hosts = (await one.template("apps", ONE_NODE, "mine")).find(({ kind }) => kind === "ConfigMap")!.yaml;
    assert.ok(hosts.includes(`"release": "${release?.split(": ")[1]}"`), hosts);
    assert.match(terms, /preferredDuringScheduling[\s\S]*svc\/volumes: "true"[\s\S]*weight: 100/);
    const elsewhere = { podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [] } };
    const own = await platform({ ...ONE_NODE, platform: { replicas: 1, affinity: elsewhere } });
    assert.doesNotMatch(own, /svc\/volumes/);
    assert.doesNotMatch(await platform(NEEDED), /affinity:/);
  });

  test("Where Pods have IPv6 alone the platform listens on all of those addresses, and is dialled at its own in brackets", async (t) => {
    const [deployment] = (await opened(t).template("apps", V6)).filter(({ kind }) => kind === "Deployment");
    const env = Object.fromEntries(
      [...deployment!.yaml.matchAll(/name: (SVC_\w+), value: "(.*)" \}/g)].map(([, name, value]) => [name, value]),
    );
    assert.equal(env.SVC_HOST, "::");
    for (const name of ["SVC_WORKER_LISTEN", "SVC_REPLICA_LISTEN"])
      assert.equal(tlsAddress.parse(env[name]).host, "::", name);
    for (const name of ["SVC_WORKER_PUBLIC", "SVC_REPLICA_PUBLIC"])
      assert.equal(dialledAddress.parse(env[name]?.replace("$(POD_IP)", "fd00::7")).host, "fd00::7", name);
  });

  test("No secret stands in the Deployment, and its program is an ordinary user without rights to its own files", async (t) => {
    for (const values of [NEEDED, KEYS]) {
      const { yaml } = (await opened(t).template("apps", values)).find(({ kind }) => kind === "Deployment")!;
      assert.doesNotMatch(yaml, /postgres:\/\/|value: "?b"?$/m);
      for (const line of ["runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]", "RuntimeDefault"])
        assert.ok(yaml.includes(line), line);
    }
  });
});

describe("The chart on an API server", { skip }, () => {
  let server: ApiServer;
  before(async () => {
    if ("program" in kubernetes) server = await ApiServer.start(kubernetes.program);
  });
  after(() => server?.stop());
  const opened = (t: Parameters<typeof tempDir>[0]) =>
    new Helm("program" in helm ? helm.program : "", tempDir(t), server.kubeconfig("admin"));

  test("The API server takes each of its objects as it is, without a field that it does not know", async (t) => {
    await server.namespace("check");
    for (const values of [NEEDED, FULL, KEYS, ONE_NODE]) {
      for (const object of await opened(t).template("check", values)) {
        if (object.kind === "ServiceMonitor") continue; // Of an operator that is not here.
        const where = `${placeOf(object, "check")}?dryRun=All&fieldValidation=Strict`;
        const { status, body } = await server.ask("POST", where, object.yaml, { type: "application/yaml" });
        // The Pod of helm test is refused for want of its service account alone.
        assert.ok(status === 201, `${object.kind} ${object.name}: ${JSON.stringify(body)}\n${object.yaml}`);
      }
    }
  });

  test("It takes Pods of hosts as they are: with volumes, with an endpoint's own image, with claims of devices", async (t) => {
    await preparePodMachines(server, "pods");
    const folder = tempDir(t);
    const size = { cpu: 8, memory: 64, gpu: 1, gpuType: "NVIDIA_L4" };
    const pools = [
      { ...size, name: "plain" },
      { ...size, name: "claims", resourceClaims: CLAIMS },
    ];
    writeFileSync(path.join(folder, "pools.json"), JSON.stringify({ ...RELEASE, volumes: { claim: "files" }, pools }));
    const file = readPoolsFile(path.join(folder, "pools.json"));
    const volumes = [{ app: "shop", environment: "production", name: "data", paths: ["/data"], readOnly: false }];
    const l4 = { product: "NVIDIA L4", emulated: false };
    const machine = { vcpus: 2, memoryGb: 4, hardware: { vcpus: 2, memoryGb: 4 }, gpus: [l4], emulatesGpu: false };
    const own = { image: "example.org/own:1", machine };
    const facts = { file, name: "p", audience: "a", ownerUid: "u", fingerprint: "f" };
    for (const pool of file.pools) {
      for (const having of [undefined, { holder: "volumes:x:1", volumes }, { holder: "image:x:1", volumes, own }]) {
        const made = podSpec({ ...facts, pool, having });
        const { status, body } = await server.ask(
          "POST",
          "/api/v1/namespaces/pods/pods?dryRun=All&fieldValidation=Strict",
          made,
        );
        assert.equal(status, 201, JSON.stringify(body));
        const { spec } = body;
        const [claimed, counted] = spec.containers
          .map(({ resources }: Resources) => [
            ...(resources.claims?.map(({ name }) => name) ?? []),
            ...(resources.limits["nvidia.com/gpu"] === undefined ? [] : ["counted"]),
          ])
          .reverse();
        assert.deepEqual(claimed, [pool.name === "claims" ? "gpu" : "counted"]);
        assert.deepEqual(counted ?? [], [], "the agent beside an own image has none");
        assert.deepEqual(spec.resourceClaims, pool.name === "claims" ? CLAIMS : undefined);
      }
    }
  });

  test("An upgrade keeps the key that seals, and the first API key; uninstalling leaves those alone, and a later install takes them up", async (t) => {
    const one = opened(t);
    const to = ["svc", CHART, "--namespace", "kept", "--create-namespace"];
    await one.done(["install", ...to], NEEDED);
    const where = "/api/v1/namespaces/kept";
    const secret = async (name: string) => (await server.done("GET", `${where}/secrets/${name}`)).data;
    const keys = async () => [(await secret("svc-sealing"))["secret.key"], (await secret("svc-first-key")).key];
    const first = await keys();
    const [sealing, api] = first.map((text) => Buffer.from(text, "base64").toString());
    assert.equal(Buffer.from(sealing!, "base64").length, 32);
    assert.notEqual(givenKey(api!), undefined, "the platform takes it");
    await one.done(["upgrade", ...to], { ...NEEDED, platform: { replicas: 2 } });
    assert.equal((await server.done("GET", "/apis/apps/v1/namespaces/kept/deployments/svc")).spec.replicas, 2);
    assert.deepEqual(await keys(), first);
    await one.done(["uninstall", "svc", "--namespace", "kept"]);
    assert.deepEqual(await keys(), first);
    const lists = ["configmaps", "services", "serviceaccounts", "secrets"].map((kind) => `${where}/${kind}`);
    const apis = ["apps/v1/namespaces/kept/deployments", "rbac.authorization.k8s.io/v1/namespaces/kept/roles"];
    const left: string[] = [];
    for (const place of [...lists, ...apis.map((api) => `/apis/${api}`)])
      left.push(
        ...(await server.done("GET", place)).items.map((item: { metadata: { name: string } }) => item.metadata.name),
      );
    assert.deepEqual(
      left.filter((name) => name !== "kube-root-ca.crt"),
      ["svc-first-key", "svc-sealing"],
    );
    await one.done(["install", ...to], NEEDED);
    assert.deepEqual(await keys(), first);
  });

  test("The rights that the other tests give the platform are those of the chart", async (t) => {
    const one = opened(t);
    await one.done(["install", "svc", CHART, "--namespace", "rights", "--create-namespace"], NEEDED);
    const where = "/apis/rbac.authorization.k8s.io/v1";
    assert.deepEqual((await server.done("GET", `${where}/namespaces/rights/roles/svc`)).rules, RULES);
    assert.equal((await server.done("GET", `${where}/namespaces/rights/roles`)).items.length, 1);
    const own = (await server.done("GET", `${where}/clusterrolebindings`)).items.filter(
      ({ subjects = [] }: { subjects?: { namespace?: string }[] }) =>
        subjects.some(({ namespace }) => namespace === "rights"),
    );
    assert.deepEqual(own, [], "nothing in the whole cluster");
  });
});
