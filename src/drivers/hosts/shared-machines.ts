/**
 * The machines of platforms that share endpoints: they hang on one of these, the first, which lends them to the others.
 *
 *   not the first ──▶ asks the first (LentMachines) ──▶ it is the first now ──▶ hosts come (HostsDriver), the others ask (Lender)
 *
 * Nothing of it is stored. The next first knows what runs from what hosts say, and whose a worker is from its row.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { DriverWishes } from "../../domain/driver-offers.ts";
import type { EventHead, RoomWant } from "../../domain/host-protocol.ts";
import { LENT_STOP_AGAIN_MS, ORPHAN_AGE_MIN_MS } from "../../domain/limits.ts";
import type { IsMine } from "../../domain/own-endpoints.ts";
import type { HostMachine } from "../../domain/placement.ts";
import type { Volume } from "../../domain/volume.ts";
import type { Capacity, DriverHooks, LocalDriver, WorkerExit, WorkerImage, WorkerSpec } from "../worker-driver.ts";
import type { WorkerEvents } from "./host-frames.ts";
import type { HostsDriver } from "./hosts-driver.ts";
import type { LendChannel } from "./lend-link.ts";
import { Lender } from "./lender.ts";
import { LentMachines } from "./lent-machines.ts";
import { type OwnRoom, SharedRoom } from "./shared-room.ts";

export interface SharedMachinesOptions {
  /** Over the machines themselves; `drain` is told of workers that are to finish what they have, then go. */
  readonly make: (hooks: DriverHooks, drain: Drain) => HostsDriver;
  readonly drain: Drain;
  readonly hooks: DriverHooks;
  readonly isFirst: () => boolean;
  readonly isMine: IsMine;
  /** Id of the platform that has an endpoint. */
  readonly ownerOf: (endpointId: string) => string;
  /** Of a worker's row; undefined: it has none. */
  readonly rowOf: (workerId: string) => Promise<{ readonly endpointId: string } | undefined>;
  /** `host:port` of the platforms that a worker may dial, this one first. */
  readonly dial: () => readonly string[];
  /** Whether the worker's own link is open here. */
  readonly isConnected: (workerId: string) => boolean;
  readonly connected: () => Iterable<string>;
  /** What this platform's endpoints wait for. */
  readonly wants: () => readonly RoomWant[];
  /** What they hold and wait for beside others. */
  readonly room: OwnRoom;
  readonly onError: (error: unknown) => void;
}

type Drain = (workerIds: readonly string[], why: string) => void;

/** Room that becomes free is told at most so often: whoever is told looks at all workers. */
const ROOM_TOLD_MS = 500;

interface Started {
  readonly endpointId: string;
  readonly at: number;
}

export class SharedMachines implements LocalDriver {
  readonly #options: SharedMachinesOptions;
  readonly #hosts: HostsDriver;
  readonly #lent: LentMachines;
  readonly others: SharedRoom;
  /** Who borrows, by platform. */
  readonly #lenders = new Map<string, Lender>();
  /** Workers that were started here, or asked about. */
  readonly #started = new Map<string, Started>();
  /** What is to be told of a worker whose endpoint is being looked up. */
  readonly #turns = new Map<string, Promise<void>>();
  #freed: NodeJS.Timeout | undefined;
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: SharedMachinesOptions) {
    this.#options = options;
    const { hooks, isConnected } = options;
    const own: WorkerEvents = {
      exited: (exit) => this.#onExit(exit),
      started: (head) => hooks.started(head),
      bootFailed: (workerId, failure) => hooks.bootFailed(workerId, failure),
      printed: (kind, workerId, stream, text) => hooks[kind](workerId, stream, text),
    };
    this.#lent = new LentMachines({
      ...own,
      // A machine that does not answer may run it all the same.
      exited: (exit) => {
        if (exit.cause === undefined || !isConnected(exit.workerId)) own.exited(exit);
      },
      available: () => hooks.available(),
      drains: (workerId, why) => options.drain([workerId], why),
      wants: () => options.wants().map(({ endpointId, missing }) => ({ endpointId, missing })),
      room: options.room,
    });
    const drain: Drain = (workerIds, why) => {
      for (const id of workerIds) this.#tell(id, () => options.drain([id], why), { event: "drains", of: { why } });
    };
    const routed: DriverHooks = {
      ...hooks,
      available: () => {
        hooks.available();
        for (const lender of this.#lenders.values()) lender.tell({ event: "available" });
      },
      started: (head) => this.#tell(head.worker, () => own.started(head), { event: "started", of: { head } }),
      bootFailed: (workerId, failure) =>
        this.#tell(workerId, () => own.bootFailed(workerId, failure), { event: "bootFailed", of: { failure } }),
      log: (...printed) => this.#printed("log", ...printed),
      programPrinted: (...printed) => this.#printed("programPrinted", ...printed),
    };
    this.#hosts = options.make(routed, drain);
    const { isFirst, isMine, ownerOf, room } = options;
    this.others = new SharedRoom({
      ...{ isFirst, isMine, ownerOf, lent: this.#lent },
      own: room,
      borrowers: this.#lenders,
      fleet: () => this.#hosts.fleet,
    });
    this.#hosts.onExit((exit) => {
      this.#tell(exit.workerId, () => own.exited(exit), { event: "exited", of: exit });
      this.#inTurn(exit.workerId, async () => {
        this.#started.delete(exit.workerId);
      });
      // Its platform knows of its room, but endpoints of others may wait for it.
      this.#freed ??= setTimeout(() => {
        this.#freed = undefined;
        routed.available();
      }, ROOM_TOLD_MS).unref();
    });
  }

  get hosts(): HostsDriver {
    return this.#hosts;
  }

  has(endpointId: string): boolean {
    return this.#options.isMine(endpointId);
  }

  /** From now on the machines hang on this platform. */
  becomeFirst(): void {
    this.#lent.detach();
    this.#hosts.beginAnew();
    this.#stopWhenKnown(this.#lent.takeStops()).catch(this.#options.onError);
    this.#lent.takeImages((image, report) => this.#hosts.prepare(image, report));
  }

  /** The link to the first. */
  attach(channel: LendChannel): void {
    this.#lent.attach(channel);
  }

  /** The link of another platform, which borrows. */
  lend(borrower: string, channel: LendChannel): void {
    this.#lenders.get(borrower)?.destroy();
    const lender: Lender = new Lender(channel, {
      machines: this.#hosts,
      start: (spec) => this.#startHere({ ...spec, beyondCapacity: spec.beyondCapacity && !this.#runs(spec.image) }),
      has: (endpointId) => this.#options.ownerOf(endpointId) === borrower,
      endpointOf: (workerId) => this.#endpointOf(workerId),
      rivals: (asked) => this.others.rivalsOf(borrower, asked),
      take: (asked) => this.others.pass(asked),
      closed: () => {
        if (this.#lenders.get(borrower) === lender) this.#lenders.delete(borrower);
      },
    });
    this.#lenders.set(borrower, lender);
  }

  /** What endpoints of those that borrow wait for. */
  async othersWant(): Promise<readonly RoomWant[]> {
    const all = await Promise.allSettled([...this.#lenders.values()].map((lender) => lender.wants()));
    return all.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
  }

  prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    return this.#isFirst ? this.#hosts.prepare(image, report) : this.#lent.prepare(image, report);
  }

  start(spec: WorkerSpec): Promise<void> {
    const told = { ...spec, dial: this.#options.dial() };
    return this.#isFirst ? this.#startHere(told) : this.#lent.start(told);
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    if (this.#isFirst) await this.#hosts.stop(workerId, graceMs);
    else this.#lent.stop(workerId, graceMs);
  }

  async list(): Promise<string[] | undefined> {
    const all = this.#isFirst ? await this.#hosts.list() : await this.#lent.list();
    return all && [...new Set([...all, ...this.#options.connected()])];
  }

  /** Of one that runs without a row of this platform's: whether this one is to end it. */
  endsAstray(workerId: string, hasRow: boolean): boolean {
    const started = this.#started.get(workerId);
    const isYoung = started !== undefined && performance.now() - started.at < ORPHAN_AGE_MIN_MS;
    return this.#isFirst && !hasRow && !isYoung;
  }

  async vouched(): Promise<readonly string[]> {
    return this.#isFirst ? this.#hosts.vouched() : this.#lent.vouched();
  }

  async capacity(): Promise<Capacity> {
    const here = await this.#hosts.capacity();
    const lent = this.#isFirst ? undefined : await this.#lent.capacity();
    if (lent === undefined) return here;
    const machines = lent.machines.map(({ prepared, ...one }) => ({
      ...one,
      ...(prepared && { prepared: new Set(prepared) }),
    }));
    return { ...here, machines: machines as readonly HostMachine[], shares: new Map(lent.shares) };
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    if (this.#isFirst) await this.#hosts.retire(endpointId, revision);
    else this.#lent.retire(endpointId, revision);
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    this.#lent.keepOnly(keep);
    await this.#hosts.removeUnused(keep, before);
  }

  open(): Promise<void> {
    return this.#hosts.open();
  }

  attachLauncher(...given: Parameters<LocalDriver["attachLauncher"]>): Promise<boolean> {
    return this.#hosts.attachLauncher(...given);
  }

  platformUrl(): Promise<string> {
    return this.#hosts.platformUrl();
  }

  cannotGive(asked: DriverWishes): readonly string[] {
    return this.#hosts.cannotGive(asked);
  }

  makeVolume(volume: Volume): Promise<void> {
    return this.#hosts.makeVolume(volume);
  }

  get missingIsolation(): readonly string[] {
    return this.#hosts.missingIsolation;
  }

  /** Machines, and what runs on them for others, are the next first's. */
  async close(): Promise<void> {
    this.#lent.detach();
    for (const lender of this.#lenders.values()) lender.destroy();
    await this.#hosts.close({ stopAll: false });
  }

  get #isFirst(): boolean {
    return this.#options.isFirst();
  }

  /** Once the machines have come, or are waited for no more. */
  async #stopWhenKnown(stops: ReturnType<LentMachines["takeStops"]>): Promise<void> {
    while (stops.length > 0 && this.#isFirst && (await this.#hosts.list()) === undefined)
      await pause(LENT_STOP_AGAIN_MS, undefined, { ref: false });
    if (this.#isFirst) for (const { workerId, graceMs } of stops) await this.#hosts.stop(workerId, graceMs);
  }

  async #startHere(spec: WorkerSpec): Promise<void> {
    const { workerId, image } = spec;
    this.#started.set(workerId, { endpointId: image.endpointId, at: performance.now() });
    try {
      await this.#hosts.start(spec);
    } catch (error) {
      this.#started.delete(workerId);
      throw error;
    }
  }

  /** Whether a worker of the endpoint was started by this platform: only the first one may be beyond what machines have. */
  #runs({ endpointId }: WorkerImage): boolean {
    return [...this.#started.values()].some((one) => one.endpointId === endpointId);
  }

  async #endpointOf(workerId: string): Promise<string | undefined> {
    const known = this.#started.get(workerId);
    if (known !== undefined) return known.endpointId;
    const row = await this.#options.rowOf(workerId);
    if (row !== undefined) this.#started.set(workerId, { endpointId: row.endpointId, at: performance.now() });
    return row?.endpointId;
  }

  #printed(kind: "log" | "programPrinted", workerId: string, stream: "stdout" | "stderr", text: string): void {
    const own = () => this.#options.hooks[kind](workerId, stream, text);
    this.#tell(workerId, own, { event: kind, stream }, Buffer.from(text));
  }

  /** Whoever has its endpoint is told; one that is not linked asks what runs when it is. */
  #tell(workerId: string, own: () => void, event: Omit<EventHead, "workerId">, body?: Uint8Array): void {
    this.#inTurn(workerId, async () => {
      const endpointId = await this.#endpointOf(workerId);
      const { isMine, ownerOf } = this.#options;
      if (endpointId === undefined || isMine(endpointId)) own();
      else this.#lenders.get(ownerOf(endpointId))?.tell({ ...event, workerId }, body);
    });
  }

  /** What is told of a worker keeps its order. */
  #inTurn(workerId: string, act: () => Promise<void>): void {
    const turn = (this.#turns.get(workerId) ?? Promise.resolve()).then(act).catch(this.#options.onError);
    this.#turns.set(workerId, turn);
    turn.finally(() => this.#turns.get(workerId) === turn && this.#turns.delete(workerId)).catch(() => {});
  }
}
