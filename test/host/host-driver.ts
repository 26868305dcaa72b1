/** The driver of a platform whose only machine is another one, for the suite of all drivers: its agent is a real process. */
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Share } from "../../src/domain/capacity.ts";
import type { SvcError } from "../../src/domain/errors.ts";
import type { EventHead, HostCall, HostState } from "../../src/domain/host-protocol.ts";
import type { HelloHead, StartedHead } from "../../src/domain/worker-protocol.ts";
import type { Capacity, WorkerExit, WorkerImage, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import { fingerprint } from "../../src/lib/self-signed-certificate.ts";
import type { LocalDriver } from "../../src/server/driver.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import type { DriverParts } from "../conformance/driver-platform.ts";
import { AgentProcess } from "./agent-process.ts";
import { LinkBroke, PlatformEnd, TOKEN } from "./platform-end.ts";

/** What stands for another machine: its agent, wherever it runs. */
export interface JoiningMachine {
  readonly isAlive: boolean;
  /** Resolves when it has ended. */
  readonly ended: Promise<unknown>;
  /** What it printed, and what else is known of it. */
  said(): Promise<string>;
  /** Ends it with all it runs. */
  end(): Promise<void>;
}

/** Lets a machine join the platform at `end`, whose address with its fingerprint is given; what it keeps goes below `dir`. */
export type JoinMachine = (address: string, end: PlatformEnd, dir: string) => JoiningMachine;

interface Machine {
  readonly end: PlatformEnd;
  agent: JoiningMachine | undefined;
}

const JOIN_MAX_MS = 120_000;
const END_MAX_MS = 30_000;

/** A process of this machine, with this environment besides. */
export function agentProcess(env: Readonly<Record<string, string | undefined>>): JoinMachine {
  return (address, _, dir) => {
    const args = [address, "--data-dir", dir, "--name", "other-machine", "--json"];
    const agent = new AgentProcess(args, { ...env, SVC_HOST_TOKEN: TOKEN });
    return {
      get isAlive() {
        return agent.isAlive;
      },
      ended: agent.ended,
      said: async () => agent.stderr,
      end: async () => {
        // The first lets workers finish, the second ends them.
        for (const signal of ["SIGINT", "SIGTERM"] as const) agent.child.kill(signal);
        await Promise.race([agent.ended, delay(END_MAX_MS, undefined, { ref: false })]);
      },
    };
  };
}

/** By the platform's data directory: a machine outlives its platform. */
const machines = new Map<string, Machine>();

export class HostDriver implements LocalDriver {
  readonly #parts: DriverParts;
  readonly #join: JoinMachine;
  readonly #machine: Machine;
  #artifacts: DriverParts["artifacts"];
  readonly #alive = new Set<string>();
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(parts: DriverParts, join: JoinMachine) {
    this.#parts = parts;
    this.#join = join;
    this.#artifacts = parts.artifacts;
    let machine = machines.get(parts.dataDir);
    if (machine === undefined) {
      machine = { end: new PlatformEnd(() => parts.artifacts, parts.tls?.host), agent: undefined };
      machines.set(parts.dataDir, machine);
    }
    this.#machine = machine;
    machine.end.onEvent = (head, body) => this.#onEvent(head, body);
    machine.end.onState = (state) => this.#onState(state);
  }

  get end(): PlatformEnd {
    return this.#machine.end;
  }

  attachHost(connection: Connection, hello: HelloHead): void {
    this.end.attachHost(connection, hello);
  }

  async open(): Promise<void> {
    const machine = this.#machine;
    const { dataDir, tls, ledger } = this.#parts;
    await machine.end.listen(tls!.port());
    if (machine.agent?.isAlive !== true) {
      machine.end.fingerprint = fingerprint(tls!.cert);
      const address = `${machine.end.url}#${machine.end.fingerprint}`;
      machine.agent = this.#join(address, machine.end, path.join(dataDir, "host"));
    }
    const { agent } = machine;
    const late = delay(JOIN_MAX_MS, undefined, { ref: false });
    const failed = Promise.race([agent.ended, late]).then(async () => {
      if (!machine.end.isUp) throw new Error(`the agent has ended, or does not come: ${await agent.said()}`);
    });
    failed.catch(() => {});
    await Promise.race([machine.end.up(), failed]);
    const state = machine.end.state!;
    for (const { worker, share } of state.workers) {
      this.#alive.add(worker);
      ledger.restore(worker, share as Share);
    }
  }

  attachLauncher = async () => false;
  platformUrl = async () => this.end.url;
  cannotGive = () => [];
  makeVolume = async () => {};

  get missingIsolation(): readonly string[] {
    return this.end.state?.missing ?? [];
  }

  async prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const digests = [image.sourceLayer, ...(image.dependencyLayer === null ? [] : [image.dependencyLayer])];
    const layers = await Promise.all(
      digests.map(async (digest) => ({
        digest,
        bytes: (await this.#artifacts.size(digest)) ?? 0,
        ticket: `ticket of ${digest}`,
      })),
    );
    await this.#ask("prepare", { image, layers }, report);
  }

  async start(spec: WorkerSpec): Promise<void> {
    const { ledger } = this.#parts;
    await ledger.withShare(spec, async (share) => {
      this.#alive.add(spec.workerId);
      await this.end.ask("start", { spec, share }).catch((error: SvcError) => {
        this.#alive.delete(spec.workerId);
        throw error;
      });
    });
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    await this.#ask("stop", { workerId, graceMs });
  }

  async list(): Promise<string[]> {
    return [...this.#alive];
  }

  async vouched(): Promise<readonly string[]> {
    return (await this.#ask("vouched")).workers as string[];
  }

  async capacity(): Promise<Capacity> {
    return this.#parts.ledger.capacity;
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    await this.#ask("retire", { endpointId, revision });
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    await this.#ask("unused", { keep, before });
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    const { agent, end } = this.#machine;
    if (stopAll && agent?.isAlive === true) await agent.end();
    await end.close();
  }

  #onEvent({ event, workerId = "", of }: EventHead, body: Buffer): void {
    const { hooks } = this.#parts;
    if (event === "started") hooks.started((of as { head: StartedHead }).head);
    else if (event === "bootFailed") hooks.bootFailed(workerId, (of as { failure: object }).failure);
    else if (event === "log") hooks.log(workerId, "stdout", body.toString("utf8"));
    else if (event === "exited") this.#exited(of as WorkerExit);
  }

  /** Its link was there before: what ended meanwhile was in no event. */
  #onState({ ended, workers }: HostState): void {
    for (const exit of ended) this.#exited(exit as WorkerExit);
    const running = new Set(workers.map(({ worker }) => worker));
    const cause = { code: null, signal: null, cause: "machine", reason: "its machine does not know it" } as const;
    for (const workerId of [...this.#alive]) if (!running.has(workerId)) this.#exited({ workerId, ...cause });
  }

  #exited(exit: WorkerExit): void {
    if (!this.#alive.delete(exit.workerId)) return;
    this.#parts.ledger.free(exit.workerId);
    this.#onExit(exit);
  }

  /** Asks again when the link broke before the answer: on a busy machine it may, and nothing of this does harm twice. */
  async #ask(call: Exclude<HostCall, "start">, body: object = {}, report: (line: string) => void = () => {}) {
    for (;;) {
      await this.end.up();
      try {
        return await this.end.ask(call, body, report);
      } catch (error) {
        if (!(error instanceof LinkBroke)) throw error;
      }
    }
  }
}
