/**
 * A real API server with its etcd, and nobody who would run Pods: tests play the kubelet by what they write into their status. Its
 * certificate and its tokens are its own.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { endsWith } from "../ends.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { removeFolder } from "../remove-folder.ts";
import { ADMIN_TOKEN, ClusterApi } from "./cluster-api.ts";

/** Whom the server's tokens stand for: users, with their groups. */
const USERS = {
  admin: "system:masters",
  "system:kube-controller-manager": "",
  "system:kube-scheduler": "",
  "system:node:n1": "system:nodes",
  "system:node:n2": "system:nodes",
};
/** A machine that is busy with other tests takes its time. */
const START_MAX_MS = 240_000;

type User = keyof typeof USERS;
const tokenOf = (user: User) => (user === "admin" ? ADMIN_TOKEN : `token-of-${user.replaceAll(":", "-")}`);

export interface ApiServerOptions {
  /** What it listens on, and what Pods and nodes know it by; default: loopback. */
  readonly address?: { readonly listen: string; readonly known: string; readonly port: number };
  readonly flags?: readonly string[];
}

export class ApiServer extends ClusterApi {
  readonly #program: string;
  readonly #options: ApiServerOptions;
  readonly folder = mkdtempSync(path.join(tmpdir(), "svc-kubernetes-"));
  readonly #children = new Map<string, ChildProcess>();
  #over = () => {};
  #etcdPorts: readonly [number, number] = [0, 0];
  #port = 0;

  private constructor(program: string, options: ApiServerOptions) {
    super();
    this.#program = program;
    this.#options = options;
  }

  /** Resolves when it is ready. */
  static async start(program: string, options: ApiServerOptions = {}): Promise<ApiServer> {
    const server = new ApiServer(program, options);
    server.#over = endsWith(() => server.stop());
    try {
      server.#etcdPorts = [await freePort(), await freePort()];
      server.#port = options.address?.port ?? (await freePort());
      server.#writeKeys();
      const [client, peer] = server.#etcdPorts.map((port) => `http://127.0.0.1:${port}`);
      server.run("etcd", [
        ...["--data-dir", server.file("etcd"), "--unsafe-no-fsync", "--log-level", "error"],
        ...["--listen-client-urls", client!, "--advertise-client-urls", client!],
        ...[
          "--listen-peer-urls",
          peer!,
          "--initial-advertise-peer-urls",
          peer!,
          "--initial-cluster",
          `default=${peer}`,
        ],
      ]);
      await server.up();
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  file(name: string): string {
    return path.join(this.folder, name);
  }

  get isUp(): boolean {
    return this.#isAlive("kube-apiserver");
  }

  get port(): number {
    return this.#port;
  }

  /** Host under which this process reaches it. */
  get host(): string {
    return this.#options.address?.known ?? "127.0.0.1";
  }

  /** PEM: whoever knows it knows the server. */
  get ca(): string {
    return readFileSync(this.file("certs/apiserver.crt"), "utf8");
  }

  /** Starts it again after down(), with other flags if given. */
  async up(flags: readonly string[] = []): Promise<void> {
    const { listen, known } = this.#options.address ?? { listen: "127.0.0.1", known: "127.0.0.1" };
    this.run("kube-apiserver", [
      `--etcd-servers=http://127.0.0.1:${this.#etcdPorts[0]}`,
      `--secure-port=${this.#port}`,
      ...[`--bind-address=${listen}`, `--advertise-address=${known}`, "--service-cluster-ip-range=10.96.0.0/24"],
      ...[`--cert-dir=${this.file("certs")}`, `--token-auth-file=${this.file("tokens.csv")}`],
      "--service-account-issuer=https://kubernetes.default.svc",
      ...[
        `--service-account-key-file=${this.file("sa.pub")}`,
        `--service-account-signing-key-file=${this.file("sa.key")}`,
      ],
      ...["--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false"],
      ...(this.#options.flags ?? []),
      ...flags,
    ]);
    await unlessEnded(
      () => this.ended,
      async () => assert.equal((await this.ask("GET", "/readyz")).status, 200),
      START_MAX_MS,
    );
  }

  /** The daemon that ended by itself, with the last that it wrote. */
  get ended(): string | undefined {
    const name = [...this.#children.keys()].find((one) => !this.#isAlive(one));
    return name === undefined ? undefined : `${name} has ended:\n${this.logOf(name)}`;
  }

  /** As a crash does; etcd and what is stored stay. */
  down(): Promise<void> {
    return this.end("kube-apiserver");
  }

  /** SIGSTOP: it takes connections and answers nothing, until SIGCONT. */
  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#children.get("kube-apiserver")!.kill(name);
  }

  /** One of the daemons beside it; it ends with stop(). */
  run(name: string, args: readonly string[], program?: string): ChildProcess {
    const log = openSync(this.file(`${name}.log`), "a");
    const child = spawn(program ?? this.#program, program === undefined ? [name, ...args] : args, {
      cwd: this.folder,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#children.set(name, child);
    return child;
  }

  async end(name: string): Promise<void> {
    const child = this.#children.get(name);
    const isAlive = this.#isAlive(name);
    this.#children.delete(name);
    if (child === undefined || !isAlive) return;
    const ended = once(child, "exit");
    child.kill("SIGCONT");
    child.kill("SIGKILL");
    await ended;
    if (name === "kube-apiserver") this.leave();
  }

  logOf(name: string): string {
    const file = this.file(`${name}.log`);
    return existsSync(file) ? readFileSync(file, "utf8").slice(-3_000) : "";
  }

  /** Ends everything and removes its folder. */
  async stop(): Promise<void> {
    for (const name of [...this.#children.keys()].reverse()) await this.end(name);
    await removeFolder(this.folder);
    this.#over();
  }

  /** For a daemon that stands for this user. */
  kubeconfig(user: User, server = this.url): string {
    const file = this.file(`${user.replaceAll(":", "-")}.kubeconfig`);
    const cluster = { server, "certificate-authority-data": Buffer.from(this.ca).toString("base64") };
    const config = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "c" },
      clusters: [{ name: "c", cluster }],
      users: [{ name: "u", user: { token: tokenOf(user) } }],
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    };
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
    return file;
  }

  #isAlive(name: string): boolean {
    const child = this.#children.get(name);
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  #writeKeys(): void {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    writeFileSync(this.file("sa.key"), privateKey.export({ type: "pkcs1", format: "pem" }), { mode: 0o600 });
    writeFileSync(this.file("sa.pub"), publicKey.export({ type: "spki", format: "pem" }));
    const lines = Object.entries(USERS).map(([user, groups]) => `${tokenOf(user as User)},${user},${user},"${groups}"`);
    writeFileSync(this.file("tokens.csv"), `${lines.join("\n")}\n`, { mode: 0o600 });
    mkdirSync(this.file("certs"));
  }
}

/** As eventually does, but not for a daemon that is gone: what `ended` says of one is thrown at once. */
export async function unlessEnded<T>(ended: () => string | undefined, check: () => Promise<T>, ms: number): Promise<T> {
  const found = await eventually(async () => {
    const words = ended();
    return words === undefined ? { result: await check() } : { words };
  }, ms);
  if ("words" in found) throw new Error(found.words);
  return found.result;
}
