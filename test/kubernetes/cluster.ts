/**
 * A real cluster on this machine: API server, controllers, scheduler, and nodes with containerd and a kubelet each, in namespaces of their own
 * (node.sh). There is no kube-proxy: a name of a Service stands for the addresses of its Pods, which the cluster's names are answered with here.
 */
import assert from "node:assert/strict";
import { createSocket, type Socket } from "node:dgram";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { debianProgram } from "../debian-packages.ts";
import { endsWith } from "../ends.ts";
import { freePort } from "../free-port.ts";
import { removeFolder } from "../remove-folder.ts";
import { ApiServer, unlessEnded } from "./api-server.ts";
import { answerName } from "./names.ts";
import { Way } from "./way.ts";

/** This machine on the nodes' network; Pods have it as the API server's too. */
export const MACHINE = "10.203.0.1";
const SERVICE_ADDRESS = "10.96.0.1";
const LONG_MS = 240_000;
const TURN_MAX_MS = 1_800_000;

export interface NodePrograms {
  /** Folders of containerd and runc, as a PATH. */
  readonly path: string;
  readonly cni: string;
}

/** What a node is made of, or why there can be none. */
export async function findNodePrograms(): Promise<NodePrograms | { readonly missing: string }> {
  if (process.getuid?.() !== 0) return { missing: "only root can make nodes" };
  for (const tool of ["ip", "nsenter", "unshare", "cc"])
    if (onPath(tool, process.env.PATH ?? "") === undefined) return { missing: `nodes need ${tool}` };
  const folders: string[] = [];
  for (const [name, file] of [
    ["containerd", "usr/bin/containerd"],
    ["runc", "usr/sbin/runc"],
    ["containernetworking-plugins", "usr/lib/cni/bridge"],
  ] as const) {
    const found = await debianProgram(name, "bookworm", file);
    if ("missing" in found) return found;
    folders.push(path.dirname(found.program));
  }
  return { path: folders.slice(0, 2).join(":"), cni: folders[2]! };
}

export class Cluster {
  #server: ApiServer | undefined;
  readonly #program: string;
  readonly #programs: NodePrograms;
  readonly #folder = mkdtempSync(path.join(tmpdir(), "svck-"));
  readonly #nodes = new Set<number>();
  /** Names of those without power or cable: for a while the API server does not know it. */
  readonly lost = new Set<string>();
  #names: Socket | undefined;
  /** Addresses by name, as they were last. */
  readonly #known = new Map<string, string[]>();
  #service: Way | undefined;
  /** Ends what its nodes' scripts are at. */
  readonly #over = new AbortController();
  readonly #scripts = new Set<Promise<unknown>>();
  #starting: Promise<void> | undefined;
  #stopping: Promise<void> | undefined;
  #ended = () => {};

  private constructor(program: string, programs: NodePrograms) {
    this.#program = program;
    this.#programs = programs;
  }

  /** Resolves when its nodes are ready. `images`: tar files; `over`: it is not wanted any more. */
  static async start(
    program: string,
    programs: NodePrograms,
    images: readonly string[],
    nodes = 2,
    over?: AbortSignal,
  ): Promise<Cluster> {
    const cluster = new Cluster(program, programs);
    cluster.#ended = endsWith(() => cluster.stop());
    const stop = () => void cluster.stop().catch(() => {});
    try {
      over?.throwIfAborted();
      over?.addEventListener("abort", stop);
      cluster.#starting = cluster.#start(images, nodes);
      await cluster.#starting;
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    } finally {
      over?.removeEventListener("abort", stop);
    }
  }

  async #start(images: readonly string[], nodes: number): Promise<void> {
    const { signal } = this.#over;
    this.#names = await this.#answerNames();
    await this.#clear();
    // It went with the last node of a cluster that was killed.
    await network();
    signal.throwIfAborted();
    const address = { listen: "0.0.0.0", known: MACHINE, port: await freePort(MACHINE) };
    const flags = ["--kubelet-preferred-address-types=InternalIP"];
    const server = await ApiServer.start(this.#program, { address, flags });
    this.#server = server;
    signal.throwIfAborted();
    const file = (name: string) => server.file(name);
    server.run("kube-controller-manager", [
      ...[`--kubeconfig=${server.kubeconfig("system:kube-controller-manager")}`, "--leader-elect=false"],
      ...["--use-service-account-credentials=true", `--service-account-private-key-file=${file("sa.key")}`],
      ...[`--root-ca-file=${file("certs/apiserver.crt")}`, "--bind-address=127.0.0.1", "--secure-port=0"],
      ...["--node-monitor-grace-period=10s", "--node-monitor-period=1s"],
    ]);
    server.run("kube-scheduler", [
      `--kubeconfig=${server.kubeconfig("system:kube-scheduler")}`,
      ...["--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"],
    ]);
    for (let number = 1; number <= nodes; number++) await this.addNode(number, images);
    this.#service = await Way.open(() => ({ host: "127.0.0.1", port: address.port }), SERVICE_ADDRESS, 443);
    const ready = async () => {
      const { items } = await server.done("GET", "/api/v1/nodes");
      assert.equal(items.filter(isReady).length, nodes, this.logs);
    };
    await unlessEnded(() => this.#told ?? this.ended, ready, LONG_MS);
  }

  /** It is to end while it starts. */
  get #told(): string | undefined {
    return this.#over.signal.aborted ? "the cluster was told to end" : undefined;
  }

  get server(): ApiServer {
    return this.#server!;
  }

  /** The daemon that ended by itself, with the last that it wrote. */
  get ended(): string | undefined {
    for (const number of this.#nodes) {
      const name = ["containerd", "kubelet"].find((one) => !this.#lives(number, one));
      if (name !== undefined) return `${name} of n${number} has ended:\n${this.#nodeLog(number, name)}`;
    }
    return this.#server?.ended;
  }

  #lives(number: number, name: string): boolean {
    const pid = readFileSync(path.join(this.#folder, `n${number}`, `${name}.pid`), "utf8").trim();
    try {
      return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
    } catch {
      return false;
    }
  }

  async addNode(number: number, images: readonly string[]): Promise<void> {
    this.#over.signal.throwIfAborted();
    this.#nodes.add(number);
    const user = number === 1 ? "system:node:n1" : "system:node:n2";
    await this.node(number, "up", { KUBECONFIG: this.server.kubeconfig(user), IMAGES: images.join(" ") });
  }

  /** As node.sh describes them. */
  async node(number: number, what: "up" | "unplug" | "plug" | "crash" | "down", more: Record<string, string> = {}) {
    const { path: programs, cni } = this.#programs;
    const env = { KUBERNETES: this.#program, PROGRAMS: programs, CNI: cni, DNS: MACHINE, IMAGES: "", ...more };
    const script = path.join(import.meta.dirname, "node.sh");
    const args = [script, this.#folder, String(number), what];
    const signal = what === "up" ? this.#over.signal : undefined;
    const done = run("bash", args, { ...process.env, ...env }, signal);
    this.#scripts.add(done);
    await done.finally(() => this.#scripts.delete(done));
    if (what === "down") this.#nodes.delete(number);
    if (what === "crash" || what === "unplug") this.lost.add(`n${number}`);
    if (what === "plug") this.lost.delete(`n${number}`);
  }

  /** In the namespaces of a node. */
  async on(number: number, command: readonly string[]): Promise<string> {
    return run("ip", ["netns", "exec", `svck-n${number}`, ...command]);
  }

  /** The last of what each daemon wrote. */
  get logs(): string {
    const ofServer = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(
      (name) => `${name}: ${this.#server?.logOf(name)}`,
    );
    const ofNodes = [...this.#nodes].flatMap((number) =>
      ["containerd", "kubelet"].map((name) => `n${number}, ${name}: ${this.#nodeLog(number, name)}`),
    );
    return [...ofServer, ...ofNodes].join("\n");
  }

  #nodeLog(number: number, name: string): string {
    const file = path.join(this.#folder, `n${number}`, `${name}.log`);
    return existsSync(file) ? readFileSync(file, "utf8").slice(-3_000) : "";
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
    await Promise.allSettled(this.#scripts);
    await this.#service?.close();
    for (const number of [...this.#nodes]) await this.node(number, "down");
    await this.#server?.stop();
    // Else it is another's.
    if (this.#names !== undefined) {
      const links = `ip addr del ${SERVICE_ADDRESS}/32 dev lo; ip link del svckhost; ip netns del svck-sw`;
      await run("sh", ["-c", `(${links}) 2>/dev/null; true`]);
      this.#names.close();
    }
    await removeFolder(this.#folder);
    this.#ended();
  }

  /** Nodes of a cluster whose process was killed. */
  async #clear(): Promise<void> {
    for (const name of readdirSync("/run/netns").filter((one) => /^svck-n\d$/.test(one))) {
      await run("sh", ["-c", `ip netns pids ${name} | xargs -r kill -KILL`]);
      const number = Number(name.at(-1));
      mkdirSync(path.join(this.#folder, `n${number}`), { recursive: true });
      await this.node(number, "down");
    }
  }

  /** The address is what one cluster at a time has: others wait for it, and make the network anew, which goes with the one before. */
  async #answerNames(): Promise<Socket> {
    const answer = async () => {
      await network();
      return this.#answerNamesNow();
    };
    return unlessEnded(() => this.#told, answer, TURN_MAX_MS);
  }

  async #answerNamesNow(): Promise<Socket> {
    const socket = createSocket("udp4");
    socket.on("message", (question, { address, port }) => {
      const answer = answerName(question, (name) => this.#addresses(name));
      answer.then((bytes) => socket.send(bytes, port, address)).catch(() => {});
    });
    await new Promise<void>((resolve, reject) => {
      const taken = (error: Error) => {
        socket.close();
        reject(new Error(`${error.message}: does another cluster of tests run on this machine?`));
      };
      socket.once("error", taken).bind(53, MACHINE, resolve);
    });
    return socket;
  }

  /** Of the Pods that are ready behind a Service: NAME.NAMESPACE.svc.cluster.local. */
  async #addresses(name: string): Promise<string[]> {
    const [, service, namespace] = /^([^.]+)\.([^.]+)\.svc\.cluster\.local$/.exec(name) ?? [];
    if (service === undefined) return [];
    const where = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D${service}`;
    const answer = await this.server.ask("GET", where).catch(() => undefined);
    // As a cluster's names do, these last while the API server is away.
    if (answer?.status !== 200) return this.#known.get(name) ?? [];
    const { body } = answer;
    type Slice = { endpoints?: { addresses: string[]; conditions: { ready?: boolean } }[] };
    const found = (body.items as Slice[]).flatMap(({ endpoints = [] }) =>
      endpoints.filter(({ conditions }) => conditions.ready !== false).flatMap(({ addresses }) => addresses),
    );
    this.#known.set(name, found);
    return found;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: as the API server has it
export function isReady(node: any): boolean {
  return node.status.conditions?.some(
    ({ type, status }: { type: string; status: string }) => type === "Ready" && status === "True",
  );
}

async function network(): Promise<void> {
  const steps = [
    `ip addr replace ${SERVICE_ADDRESS}/32 dev lo`,
    "[ ! -e /run/netns/svck-sw ] || exit 0",
    "ip netns add svck-sw",
    "ip -n svck-sw link add br0 type bridge",
    "ip -n svck-sw link set br0 up",
    "ip link add svckhost type veth peer name host netns svck-sw",
    "ip -n svck-sw link set host master br0 up",
    `ip addr add ${MACHINE}/24 dev svckhost`,
    "ip link set svckhost up",
  ];
  mkdirSync("/run/netns", { recursive: true });
  await run("sh", ["-ec", steps.join("\n")]);
}

async function run(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  signal?: AbortSignal,
): Promise<string> {
  const { code, stdout, stderr } = await runProcess(command, args, { env, signal, group: signal !== undefined });
  assert.equal(code, 0, `${command} ${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}
