/**
 * One endpoint's revision in one container: a launcher with its zygote, and the workers forked from it.
 *
 *   create ─▶ start ─▶ launcher dials in ─▶ workers come and go, limits follow ─▶ none for long, or retired ─▶ removed
 *                                              └── the container ends by itself: its workers are reported as ended
 *
 * A later platform finds the running container by its labels and adopts it; the launcher inside dials in again by itself.
 */
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { hashSecret, newSecret } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import {
  CONTAINER_CALL_RETRY_MS,
  CONTAINER_SHRINK_MS,
  CONTAINER_START_TIMEOUT_MS,
  LAUNCHER_RETURN_MS,
  RECONNECT_MAX_MS,
  ZYGOTE_TTL_MS,
} from "../../domain/limits.ts";
import type { ExitedHead, StartedHead, StartHead } from "../../domain/worker-protocol.ts";
import type { Own } from "../../lib/own.ts";
import { type LauncherChannel, type LauncherEvents, LauncherLink } from "../launcher-link.ts";
import { createContainer, ended, removeContainer } from "./container-life.ts";
import { answered, type Container, type Engine, engineFailed, engineWords, hasStatus } from "./engine.ts";
import { withoutStreamHeaders } from "./image-facts.ts";
import { LABEL } from "./labels.ts";
import { type ContainerPlan, containerLimits, containerOptions, type WorkerShare } from "./worker-container.ts";

const NAME_MARK_CHARS = 6;

interface GroupOptions {
  readonly engine: Engine;
  readonly zygote: string;
  readonly share: WorkerShare;
  /** Where the launcher inside dials. */
  readonly socket: string;
  readonly events: LauncherEvents & { over(group: WorkerGroup): void };
  readonly own: Own;
}

export class WorkerGroup {
  readonly #options: GroupOptions;
  readonly #link: LauncherLink;
  readonly #over = new AbortController();
  readonly #workers = new Set<string>();
  #tokenHash = "";
  #container: Container | undefined;
  #ready: Promise<void> = Promise.resolve();
  #retired = false;
  #leave: NodeJS.Timeout | undefined;
  /** Workers for which the container's limits are set. */
  #sizedFor = 1;
  #sizing = false;

  constructor(options: GroupOptions) {
    this.#options = options;
    const { events } = options;
    this.#link = new LauncherLink({
      ...events,
      survived: (worker, share) => {
        this.#workers.add(worker);
        events.survived(worker, share);
      },
      exited: (head) => this.#exited(head),
    });
  }

  get zygote(): string {
    return this.#options.zygote;
  }

  get workers(): ReadonlySet<string> {
    return this.#workers;
  }

  vouched(): Promise<readonly string[]> {
    return this.#link.vouched();
  }

  /** Makes the container, once the folders that it has are there; `start` waits for it. */
  launch(folders: Promise<void>, plan: ContainerPlan): void {
    this.#ready = folders.then(() => this.#launch(plan));
    this.#ready.catch((error) => this.#end(error));
  }

  /** Takes over a container that runs. Resolves false when its launcher does not come back. */
  async adopt(container: Container, tokenHash: string): Promise<boolean> {
    this.#container = container;
    this.#tokenHash = tokenHash;
    this.#look(container);
    try {
      await this.#connectedWithin(LAUNCHER_RETURN_MS);
    } catch (error) {
      this.#end(error as Error);
      return false;
    }
    this.#fit();
    if (this.#workers.size === 0) this.#leaveLater();
    return true;
  }

  /** Takes the connection when it is this launcher's. */
  attach(secret: string, channel: LauncherChannel): boolean {
    if (this.#tokenHash === "" || hashSecret(secret) !== this.#tokenHash) return false;
    this.#link.attach(channel);
    return true;
  }

  /** Resolves when START is on its way, or when the worker was stopped before. Throws SvcError. */
  async start(head: StartHead): Promise<void> {
    this.#retired = false;
    clearTimeout(this.#leave);
    this.#workers.add(head.worker);
    this.#fit();
    try {
      await this.#ready;
      if (!this.#workers.has(head.worker)) return;
      if (!this.#link.isReady)
        throw new SvcError("NO_CAPACITY", "The endpoint's container does not answer at the moment.");
      this.#link.startWorker(head);
    } catch (error) {
      this.#workers.delete(head.worker);
      if (this.#workers.size === 0) this.#leaveLater();
      throw error;
    }
  }

  stop(workerId: string, graceMs: number): void {
    if (this.#link.alive.has(workerId)) this.#link.stopWorker(workerId, graceMs);
    else this.#exited({ worker: workerId, code: null, signal: null, reason: "stopped before it began" });
  }

  /** It takes no new worker; the container goes with the last one. */
  retire(): void {
    this.#retired = true;
    this.#link.retire(this.#options.zygote);
    if (this.#workers.size === 0) this.#leaveLater();
  }

  /** The container lives on, for the next platform. */
  letGo(): void {
    clearTimeout(this.#leave);
    this.#over.abort();
  }

  /** Ends the workers and removes the container. */
  async remove(): Promise<void> {
    clearTimeout(this.#leave);
    this.#link.giveUp(new SvcError("NO_CAPACITY", "The platform stops."));
    const ended = this.#link.shutdown(0);
    await Promise.race([ended, delay(CONTAINER_CALL_RETRY_MS, undefined, { ref: false })]);
    this.#over.abort();
    await this.#ready.catch(() => {});
    await removeContainer(this.#container);
  }

  async #launch(plan: ContainerPlan): Promise<void> {
    const { engine, socket } = this.#options;
    const { secret, hash } = newSecret("worker");
    this.#tokenHash = hash;
    try {
      const labels = { ...plan.labels, [LABEL.launcher]: hash };
      const name = `${plan.name}-${hash.slice(0, NAME_MARK_CHARS)}`; // The one before it may still be going.
      const container = await createContainer(engine, containerOptions({ ...plan, labels, name }));
      this.#container = container;
      const attached = container.attach({ stream: true, stdin: true, hijack: true });
      const stdin = await answered(attached, (stream) => (stream as Duplex).destroy());
      stdin.on("error", () => {}); // A launcher that ends early is reported by its end.
      await answered(container.start());
      stdin.end(`${JSON.stringify({ socket, token: secret, id: "launcher", reconnectMs: RECONNECT_MAX_MS })}\n`);
      this.#look(container);
    } catch (error) {
      throw engineFailed("The endpoint's container cannot be started", error);
    }
    await this.#connectedWithin(CONTAINER_START_TIMEOUT_MS);
    this.#fit();
  }

  async #connectedWithin(ms: number): Promise<void> {
    const late = new SvcError("NO_CAPACITY", `The endpoint's container did not answer within ${ms / 1000} s.`);
    const timer = setTimeout(() => this.#link.giveUp(late), ms);
    await this.#link.connected().finally(() => clearTimeout(timer));
  }

  #look(container: Container): void {
    this.#options.own("looking after a container", this.#watch(container));
  }

  async #watch(container: Container): Promise<void> {
    if (!(await ended(container, this.#over.signal))) return;
    const words = await this.#lastWords(container);
    this.#end(new SvcError("NO_CAPACITY", `The endpoint's container ${words}.`), `lost: its container ${words}`);
  }

  async #lastWords(container: Container): Promise<string> {
    try {
      const { State } = await answered(container.inspect());
      if (State.OOMKilled) return "ran out of memory";
      const raw = await answered(container.logs({ stdout: true, stderr: true, tail: 3 }));
      const said = withoutStreamHeaders(raw as unknown as Buffer).trim();
      return `ended with code ${State.ExitCode}${said === "" ? "" : `: ${said.split("\n").at(-1)}`}`;
    } catch (error) {
      return hasStatus(error, 404) ? "was removed" : `ended: ${engineWords(error)}`;
    }
  }

  #end(error: Error, reason = error.message): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    clearTimeout(this.#leave);
    this.#link.giveUp(error);
    const running = [...this.#workers].filter((worker) => this.#link.alive.has(worker));
    this.#options.events.over(this);
    for (const worker of running) this.#exited({ worker, code: null, signal: "SIGKILL", reason });
    this.#options.own("removing a container", removeContainer(this.#container));
  }

  #exited(head: ExitedHead): void {
    if (!this.#workers.delete(head.worker)) return;
    this.#options.events.exited(head);
    if (this.#over.signal.aborted) return;
    if (this.#workers.size === 0) this.#leaveLater();
    setTimeout(() => this.#fit(), CONTAINER_SHRINK_MS).unref();
  }

  /** The container stays for a while, since a worker forked in it starts in a millisecond. */
  #leaveLater(): void {
    clearTimeout(this.#leave);
    this.#leave = setTimeout(() => this.#end(new Error("no worker for long")), this.#retired ? 0 : ZYGOTE_TTL_MS);
    this.#leave.unref();
  }

  /** Brings the container's limits in line with its workers. A worker does not wait for it: it has to import first. */
  #fit(): void {
    if (this.#sizing || this.#container === undefined || !this.#link.isUp) return;
    this.#sizing = true;
    const resized = this.#resize(this.#container).finally(() => {
      this.#sizing = false;
    });
    this.#options.own("setting a container's limits", resized);
  }

  async #resize(container: Container): Promise<void> {
    while (!this.#over.signal.aborted) {
      const workers = Math.max(1, this.#workers.size);
      if (workers === this.#sizedFor) return;
      try {
        await answered(container.update(containerLimits(this.#options.share, workers)));
      } catch {
        return; // It uses more than that at the moment; the next change of workers tries again.
      }
      this.#sizedFor = workers;
    }
  }
}

/** What surrounds a worker besides what its launcher says. */
export function inContainer(head: StartedHead): StartedHead {
  const isolation = ["container", head.isolation].filter(Boolean).join(", ");
  return { ...head, limits: `container, ${head.limits ?? "none"}`, isolation };
}
