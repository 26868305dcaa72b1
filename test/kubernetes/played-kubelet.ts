/**
 * Runs Pods of a namespace as a kubelet would, as far as hosts need it: real agents on this machine, each with the arguments of its Pod and a
 * token that the API server made for it. What a Pod may be short of is said by the test.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AgentProcess } from "../host/agent-process.ts";
import { removeFolder } from "../remove-folder.ts";
import type { ClusterApi } from "./cluster-api.ts";

interface PlayedPod {
  readonly name: string;
  readonly uid: string;
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has it
  spec: any;
  agent: AgentProcess | undefined;
  /** Of an endpoint's own image. */
  worker?: ChildProcess;
  isTold?: true;
}

export interface PlayedKubeletOptions {
  /** The platform as agents of this machine reach it; absent: as the Pods' arguments say. */
  readonly platform?: () => string;
  readonly env?: Readonly<Record<string, string>>;
  /** A status that a Pod has in place of running. */
  readonly held?: (name: string) => object | undefined;
  /** A Pod gets the first of them that it is not kept from. */
  readonly nodes?: readonly string[];
  /** So many have room on each; absent: all. */
  readonly room?: number;
  /** Of them, those whose kubelets do nothing from the start. */
  readonly dead?: readonly string[];
}

const NO_NODE = { type: "PodScheduled", status: "False", reason: "Unschedulable", message: "no node has room" };
/** Each look costs a request on both sides. */
const LOOK_EVERY_MS = 250;

export class PlayedKubelet {
  readonly #server: ClusterApi;
  readonly #namespace: string;
  readonly #options: PlayedKubeletOptions;
  readonly #folder = mkdtempSync(path.join(tmpdir(), "svc-pods-"));
  readonly #pods = new Map<string, PlayedPod>();
  readonly #ended: AgentProcess[] = [];
  #running: Promise<void> | undefined;
  #closed = false;
  /** Nodes whose kubelets do nothing: Kubernetes has not noticed. */
  readonly dead: Set<string>;
  /** It sees nothing of the API server while this is set. */
  paused = false;

  constructor(server: ClusterApi, namespace: string, options: PlayedKubeletOptions) {
    this.#server = server;
    this.#namespace = namespace;
    this.#options = options;
    this.dead = new Set(options.dead);
  }

  start(): void {
    this.#running = this.#run();
  }

  /** By name. */
  agent(name: string): AgentProcess | undefined {
    return [...this.#pods.values()].find((pod) => pod.name === name)?.agent;
  }

  /** Of the container of an endpoint's own image: that of a Pod, by name. */
  worker(name: string): ChildProcess | undefined {
    return [...this.#pods.values()].find((pod) => pod.name === name)?.worker;
  }

  get said(): string {
    return [...this.#ended, ...[...this.#pods.values()].flatMap(({ agent }) => agent ?? [])]
      .map(({ stdout, stderr }) => stdout + stderr)
      .join("\n");
  }

  async stop(): Promise<void> {
    this.#closed = true;
    await this.#running;
    await Promise.all([...this.#pods.values()].map(({ agent }) => agent?.end()));
    for (const { worker } of this.#pods.values()) worker?.kill("SIGKILL");
    await removeFolder(this.#folder);
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      if (!this.paused) await this.#look().catch((error) => process.stderr.write(`played kubelet: ${error}\n`));
      await delay(LOOK_EVERY_MS);
    }
  }

  async #look(): Promise<void> {
    const where = `/api/v1/namespaces/${this.#namespace}/pods`;
    const answer = await this.#server.ask("GET", where).catch(() => undefined);
    if (answer?.status !== 200) return;
    const there = new Set<string>();
    for (const { metadata, spec } of answer.body.items) {
      const { uid, name, deletionTimestamp } = metadata;
      there.add(uid);
      if (!this.#pods.has(uid)) this.#pods.set(uid, { name, uid, spec, agent: undefined });
      const pod = this.#pods.get(uid)!;
      const held = this.#options.held?.(name);
      if (held !== undefined) await this.#status(name, held);
      else if (this.dead.has(spec.nodeName)) continue;
      else if (deletionTimestamp !== undefined) await this.#endPod(pod);
      else if (pod.agent === undefined && spec.nodeName === undefined) await this.#startPod(pod);
    }
    for (const [uid, pod] of this.#pods) {
      if (there.has(uid)) continue;
      this.#pods.delete(uid);
      this.#leave(pod);
    }
  }

  #leave({ agent, worker }: PlayedPod): void {
    worker?.kill("SIGKILL");
    if (agent === undefined) return;
    this.#ended.push(agent);
    agent.child.kill("SIGTERM");
  }

  async #startPod(pod: PlayedPod): Promise<void> {
    const { name, uid, spec } = pod;
    const { nodes = ["n1"], room = Number.POSITIVE_INFINITY } = this.#options;
    const there = (one: string) => [...this.#pods.values()].filter((other) => other.spec.nodeName === one).length;
    const node = nodes.find((one) => !isKeptFrom(spec, one) && there(one) < room);
    if (node === undefined) return this.#status(name, { conditions: [NO_NODE] });
    const where = `/api/v1/namespaces/${this.#namespace}/pods/${name}/binding`;
    await this.#server.done("POST", where, {
      metadata: { name },
      target: { apiVersion: "v1", kind: "Node", name: node },
    });
    pod.spec = { ...spec, nodeName: node };
    if (this.dead.has(node)) return;
    const [container, own] = spec.containers;
    // Short: sockets are in it, below the folder of the test.
    const folder = path.join(this.#folder, uid.slice(0, 8));
    mkdirSync(folder, { recursive: true });
    const { audience } = spec.volumes.find((one: { name: string }) => one.name === "token").projected.sources[0]
      .serviceAccountToken;
    const token = await this.#server.token(this.#namespace, spec.serviceAccountName, [audience], { name, uid });
    writeFileSync(path.join(folder, "token"), token);
    const args = container.args.slice(2).map((arg: string) =>
      arg
        .replace(/^https?:\/\/[^#]*(?=#)/, (said) => this.#options.platform?.() ?? said)
        .replace("/var/run/secrets/svc", folder)
        .replace(/^\/opt\/svc\/data/, path.join(folder, "data")),
    );
    const env = Object.fromEntries(
      container.env
        .filter(({ value }: { value: string }) => !value.startsWith("/opt/svc/data"))
        .map(({ name: key, value }: { name: string; value: string }) => [
          key,
          value.replace(/^\/opt\/svc\/pod/, path.join(folder, "pod")),
        ]),
    );
    if (own !== undefined) mkdirSync(path.join(folder, "pod"));
    pod.agent = new AgentProcess(args, { ...env, ...this.#options.env });
    if (own !== undefined) this.#startOwn(pod, own, path.join(folder, "pod"));
    const containerStatuses = spec.containers.map(({ name: container }: { name: string }) => {
      return { name: container, image: "i", imageID: "i", ready: true, restartCount: 0, state: { running: {} } };
    });
    const scheduled = { type: "PodScheduled", status: "True" };
    await this.#status(name, { phase: "Running", conditions: [scheduled], containerStatuses });
  }

  /** What runs in it sees its image by a variable. It is begun anew when it ends. */
  #startOwn(pod: PlayedPod, container: { command: string[]; image: string }, shared: string): void {
    const [command = "", ...args] = container.command.map((arg) => arg.replaceAll("/opt/svc/pod", shared));
    const { PATH = "" } = process.env;
    const env = { PATH, HOME: "/tmp", PLAYED_IMAGE: container.image, KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    const child = spawn(command, args, { env, stdio: "inherit" });
    pod.worker = child;
    child.once("exit", () => {
      if (!this.#closed && this.#pods.has(pod.uid) && pod.isTold === undefined) this.#startOwn(pod, container, shared);
    });
  }

  async #endPod(pod: PlayedPod): Promise<void> {
    const { agent, name } = pod;
    if (agent?.isAlive) {
      // Once, as a kubelet does: a second one is a hurry.
      if (pod.isTold === undefined) agent.child.kill("SIGTERM");
      pod.isTold = true;
      return;
    }
    const where = `/api/v1/namespaces/${this.#namespace}/pods/${name}`;
    await this.#server.ask("DELETE", where, { gracePeriodSeconds: 0, preconditions: { uid: pod.uid } });
  }

  async #status(name: string, status: object): Promise<void> {
    const where = `/api/v1/namespaces/${this.#namespace}/pods/${name}/status`;
    await this.#server.ask("PATCH", where, { status }, { type: "application/merge-patch+json" });
  }
}

/** As the scheduler reads its affinity, as far as that names nodes. */
// biome-ignore lint/suspicious/noExplicitAny: as the API server has it
function isKeptFrom({ affinity }: any, node: string): boolean {
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms ?? [];
  // biome-ignore lint/suspicious/noExplicitAny: the same
  return terms.some(({ matchFields }: any) =>
    // biome-ignore lint/suspicious/noExplicitAny: the same
    matchFields.some(({ operator, values }: any) => operator === "NotIn" && values.includes(node)),
  );
}
