/**
 * The platform's end of one host: what its agent said last, what it is asked, and the workers that are counted on it.
 *
 *   away ──HELLO, STATE──▶ here ──link closes, or silence──▶ away ──▶ workers without a link of their own are counted out
 *                                                                  HOST_SILENCE_MAX_MS after it was last there
 *
 * An agent may say anything: it is heard about workers alone that were started on it.
 */
import { type Machine, type Share, type Used, usedBy } from "../../domain/capacity.ts";
import type { InUse } from "../../domain/host.ts";
import {
  answerHead,
  type EventHead,
  eventHead,
  HOST_FRAME,
  type HostCall,
  type HostState,
  hostInUse,
  hostState,
  reportHead,
} from "../../domain/host-protocol.ts";
import { HOST_DOUBT_MS, HOST_SILENCE_MAX_MS, HOST_STATE_MAX_BYTES, LINK_PING_MS } from "../../domain/limits.ts";
import { type HostMachine, imageKey, zygoteKey } from "../../domain/placement.ts";
import { hasVolumes } from "../../domain/pools.ts";
import { FRAME } from "../../domain/worker-protocol.ts";
import { type Frame, FrameError, readHead } from "../../lib/frames.ts";
import type { WorkerExit, WorkerImage, WorkerSpec } from "../worker-driver.ts";
import { HostCalls } from "./host-calls.ts";
import { checked, exitOf, readBody, ToldLines, tellOfWorker, type WorkerEvents } from "./host-frames.ts";
import { type HostChannel, type KnownHost, keptFor, type PrepareBody } from "./known-host.ts";
import { PlacedWorkers } from "./placed-workers.ts";

export interface HostEvents extends WorkerEvents {
  /** The worker is counted on another machine. */
  isElsewhere(workerId: string, host: RemoteHost): boolean;
  /** It is known again which workers run there, */
  came(host: RemoteHost): void;
  /** or it can start some. */
  available(): void;
  /** Its agent is to end: its workers are to finish what they have. */
  leaving(host: RemoteHost): void;
  told(line: string, facts: Readonly<Record<string, unknown>>): void;
}

export class RemoteHost {
  row: KnownHost;
  readonly #events: HostEvents;
  readonly #hostOf: Map<string, RemoteHost>;
  readonly #ofWorkers: WorkerEvents;
  readonly #calls = new HostCalls(() => `The machine ${this.row.name}`);
  /** Of the workers that are counted on it. */
  readonly shares = new Map<string, Share>();
  /** The sum of them; undefined when they have changed. */
  #used: Used | undefined;
  readonly #placed = new PlacedWorkers();
  readonly #prepared = new Set<string>();
  readonly #problems = new Map<string, string>();
  readonly #warm = new Set<string>();
  /** Ends that were asked for while it was away, with their graces. */
  readonly #stops = new Map<string, number>();
  /** Images are prepared one after another. */
  #turn: Promise<unknown> = Promise.resolve();
  #channel: HostChannel | undefined;
  #state: HostState | undefined;
  #inUse: InUse | undefined;
  #isKnown = false;
  /** On the link that is there now. */
  #hasStated = false;
  #leaves = false;
  /** Whoever looks after it is about to delete it. */
  isGiven = false;
  #isDoubted = false;
  /** In milliseconds of `performance.now()`: when it came, or was last there. */
  since = performance.now();
  /** The same, when it had a worker last. */
  usedAt = performance.now();
  readonly #told = new ToldLines();

  /** `hostOf`: where each worker of any host is counted. */
  constructor(row: KnownHost, events: HostEvents, hostOf: Map<string, RemoteHost>) {
    this.row = row;
    this.#hostOf = hostOf;
    this.#events = events;
    this.#ofWorkers = { ...events, exited: (exit) => this.#exited(exit) };
  }

  get id(): string {
    return this.row.id;
  }

  /** Its agent is connected and has said which workers run. */
  get isHere(): boolean {
    return this.#channel !== undefined && this.#hasStated;
  }

  /** Here, but silent: when it was last heard, in milliseconds of `performance.now()`. It may be gone. */
  get silentSince(): number | undefined {
    return this.isHere && this.#isDoubted ? this.#channel!.lastHeard : undefined;
  }

  /** It has said, at least once since the platform started, which workers run. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  get machine(): Machine | undefined {
    return this.#state?.machine;
  }

  /** As its agent measured last. */
  get inUse(): InUse | undefined {
    return this.isHere ? this.#inUse : undefined;
  }

  /** It gets no further workers. */
  get isClosed(): boolean {
    return this.isGiven || this.#leaves || this.row.draining;
  }

  /** Images that could not be prepared there, with the reasons. */
  get imageProblems(): ReadonlyMap<string, string> {
    return this.#problems;
  }

  /** What is wrong with it, in words. */
  get problems(): readonly string[] {
    return (this.#state?.missing ?? []).map((one) => `It lacks ${one}.`);
  }

  /** What its workers have of it. */
  usedOf(machine: Machine): Used {
    this.#used ??= usedBy(machine, this.shares.values());
    return this.#used;
  }

  /** As it is placed on; undefined before it was heard of. */
  view(): HostMachine | undefined {
    if (this.#state === undefined) return undefined;
    const { id, name, labels, sharedVolumes } = this.row;
    return {
      ...this.#state.machine,
      id,
      name,
      labels,
      sharedVolumes: sharedVolumes || hasVolumes(this.row.holder),
      closed: this.#closed,
      prepared: this.#prepared,
      problems: this.#problems,
      warm: this.#warm,
      counts: this.#placed.counts,
      inUse: this.inUse,
      kept: keptFor(this.row),
    };
  }

  get #closed(): string | undefined {
    if (!this.isHere) return "it is away";
    if (this.#leaves) return "its agent is about to end";
    if (this.isGiven) return "it is being deleted";
    if (this.#isDoubted) return "it does not answer at present";
    return this.row.draining ? "it is being drained" : undefined;
  }

  /** Takes the link of an agent that has proved itself; one of before is closed. */
  attach(channel: HostChannel): void {
    const before = this.#channel;
    this.#channel = channel;
    if (before !== undefined) {
      this.#calls.broke();
      before.destroy();
    }
    this.#leaves = this.#hasStated = this.#isDoubted = false;
    this.#inUse = undefined;
    channel.onFrame = (frame) => this.#onFrame(channel, frame);
    const { onClose } = channel;
    channel.onClose = () => {
      onClose();
      if (this.#channel !== channel) return;
      this.#channel = undefined;
      const now = performance.now();
      // The silence before its link was given up is a part of its absence.
      this.since = now - channel.lastHeard > HOST_SILENCE_MAX_MS ? channel.lastHeard : now;
      this.#calls.broke();
    };
  }

  /** Looks after its link: asks a silent agent, and closes the link of one that stays so. */
  look(now: number): void {
    const channel = this.#channel;
    if (channel === undefined || channel.isPaused) return;
    const silentMs = now - channel.lastHeard;
    const wasDoubted = this.#isDoubted;
    this.#isDoubted = silentMs > HOST_DOUBT_MS;
    if (wasDoubted && !this.#isDoubted) this.#events.available();
    if (silentMs > HOST_SILENCE_MAX_MS) channel.destroy();
    else if (silentMs > LINK_PING_MS / 2) channel.send(FRAME.PING, 0);
  }

  /** Its agent is away for so long that nobody vouches for its workers any more. */
  isLost(now: number): boolean {
    return !this.isHere && now - this.since > HOST_SILENCE_MAX_MS;
  }

  /** Throws what the agent says is in the way; `report` gets its lines. Images wait for each other. */
  prepare(image: WorkerImage, body: () => Promise<PrepareBody>, report: (line: string) => void): Promise<void> {
    const key = imageKey(image);
    const done = this.#turn.then(async () => {
      try {
        await this.#ask("prepare", await body(), report);
        this.#prepared.add(key);
        this.#problems.delete(key);
      } catch (error) {
        // What was prepared before it went away lies there when it is back.
        if (!this.isHere) throw error;
        this.#prepared.delete(key);
        this.#problems.set(key, (error as Error).message.replace(/\.$/, ""));
        throw error;
      }
    });
    this.#turn = done.catch(() => {});
    return done;
  }

  /** `image`: as placement.ts names it. */
  isPrepared(image: string): boolean {
    return this.#prepared.has(image);
  }

  /** No worker starts from it any more. */
  forget(image: WorkerImage): void {
    const key = imageKey(image);
    this.#prepared.delete(key);
    this.#problems.delete(key);
  }

  /** The share is counted from now on. Throws what the driver there throws, STARTS_PAUSED when it does not answer. */
  async start(spec: WorkerSpec, share: Share): Promise<void> {
    const { workerId, image, revision } = spec;
    this.#count(workerId, share, image.endpointId);
    try {
      const { host: _, ...told } = share;
      await this.#ask("start", { spec, share: told });
      this.#warm.add(zygoteKey(image.endpointId, revision));
    } catch (error) {
      this.#discount(workerId);
      // It may come up nevertheless, while it is started elsewhere: then it is one too many.
      this.#end(workerId);
      throw error;
    }
  }

  /** Resolves when it is on its way; while the host is away, the end waits for it. */
  stop(workerId: string, graceMs: number): void {
    const later = () => void (this.shares.has(workerId) && this.#stops.set(workerId, graceMs));
    if (!this.isHere) later();
    else this.#ask("stop", { workerId, graceMs }).catch(later);
  }

  /** Of a worker that is not counted here; one that it has while it is away is in its next STATE. */
  #end(workerId: string): void {
    if (this.isHere) this.#ask("stop", { workerId, graceMs: 0 }).catch(() => {});
  }

  retire(endpointId: string, revision: string): void {
    this.#warm.delete(zygoteKey(endpointId, revision));
    if (this.isHere) this.#ask("retire", { endpointId, revision }).catch(() => {}); // The next agent knows no zygote.
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    if (this.isHere) await this.#ask("unused", { keep, before });
  }

  /** Workers whose launcher there answers now. */
  async vouched(): Promise<readonly string[]> {
    if (!this.isHere) return [];
    const answer = await this.#ask("vouched").catch(() => undefined);
    const { workers = [] } = (answer ?? {}) as { workers?: unknown };
    return Array.isArray(workers) ? workers.filter((id): id is string => this.shares.has(id)) : [];
  }

  /** Its workers are gone, for all that is known. */
  countOut(workers: Iterable<string>, reason: string, cause: WorkerExit["cause"] = "machine"): void {
    for (const workerId of [...workers]) {
      this.#exited({ workerId, code: null, signal: null, cause, reason });
    }
  }

  /** It is told why, and is no host any more. */
  dismiss(reason: string): void {
    const channel = this.#channel;
    channel?.send(FRAME.REFUSED, 0, { reason });
    channel?.close();
  }

  #ask(call: HostCall, body?: object, report?: (line: string) => void): Promise<unknown> {
    if (this.#channel === undefined) return Promise.reject(this.#calls.away());
    return this.#calls.ask(this.#channel, call, body, report);
  }

  #count(workerId: string, share: Share, endpointId: string | undefined): void {
    if (endpointId !== undefined) this.#placed.add(workerId, endpointId);
    this.shares.set(workerId, { ...share, host: this.id });
    this.#hostOf.set(workerId, this);
    this.#used = undefined;
  }

  #discount(workerId: string): void {
    this.shares.delete(workerId);
    if (this.#hostOf.get(workerId) === this) this.#hostOf.delete(workerId);
    this.usedAt = performance.now();
    this.#used = undefined;
    this.#stops.delete(workerId);
    this.#placed.delete(workerId);
  }

  #exited(exit: WorkerExit): void {
    if (!this.shares.has(exit.workerId)) return;
    this.#discount(exit.workerId);
    this.#events.exited(exit);
  }

  /** Throws when the frame breaks the protocol: the link must be closed then. */
  #onFrame(channel: HostChannel, frame: Frame): void {
    if (frame.type === FRAME.PING) channel.send(FRAME.PONG, 0);
    else if (frame.type === HOST_FRAME.STATE) this.#stated(frame);
    else if (!this.#hasStated && frame.type === HOST_FRAME.EVENT) throw new FrameError("it says EVENT before STATE");
    else if (frame.type === HOST_FRAME.ANSWER) this.#calls.answered(readHead(frame, answerHead), frame.body);
    else if (frame.type === HOST_FRAME.REPORT) this.#calls.reported(readHead(frame, reportHead));
    else if (frame.type === HOST_FRAME.EVENT) this.#happened(readHead(frame, eventHead), frame.body);
    else if (frame.type !== FRAME.PONG) throw new FrameError(`it says ${frame.type}`);
  }

  #stated({ body }: Frame): void {
    if (body.length > HOST_STATE_MAX_BYTES) throw new FrameError("its list of workers is too long");
    const state = readBody(body, hostState);
    for (const exit of state.ended) this.#exited(exitOf(exit));
    const running = new Set(state.workers.map(({ worker }) => worker));
    // One that is counted on another machine was started here too, while this link was breaking; or it is made up.
    const extra = new Set<string>();
    for (const { worker, share } of state.workers) {
      if (!this.shares.has(worker) && this.#events.isElsewhere(worker, this)) extra.add(worker);
      else this.#count(worker, share, undefined);
    }
    this.countOut(
      [...this.shares.keys()].filter((worker) => !running.has(worker)),
      `its machine ${this.row.name} does not know it`,
    );
    this.#state = { ...state, ended: [], workers: [] };
    this.#used = undefined; // It may have other GPUs now.
    const comes = !this.#hasStated;
    this.#isKnown = this.#hasStated = true;
    if (comes) this.since = performance.now();
    for (const [workerId, graceMs] of this.#stops) this.stop(workerId, graceMs);
    this.#stops.clear();
    for (const workerId of extra) this.#end(workerId);
    if (comes) this.#events.came(this);
    else this.#events.available();
  }

  #happened(head: EventHead, body: Buffer): void {
    const { event, workerId = "", of } = head;
    if (event === "available") this.#events.available();
    else if (event === "told")
      this.#told.next(of, (line, facts) => this.#events.told(`the machine ${this.row.name}: ${line}`, { facts }));
    else if (event === "used") this.#inUse = checked(of, hostInUse);
    else if (event === "leaving") {
      this.#leaves = true;
      this.#events.leaving(this);
    } else if (this.shares.has(workerId)) tellOfWorker(head, body, this.#ofWorkers);
    // Else it is of another's worker, or of one that was counted out.
  }
}
