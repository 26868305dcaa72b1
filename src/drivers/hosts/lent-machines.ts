/**
 * Machines of a platform that has none itself: another one, which they hang on, lends them. While that is away all that runs goes on, and
 * starts wait.
 */
import { SvcError } from "../../domain/errors.ts";
import { type EventHead, type LentCapacity, lentCapacity, type RoomWant } from "../../domain/host-protocol.ts";
import { LENT_STOP_AGAIN_MS, LENT_STOP_TRIES_MAX } from "../../domain/limits.ts";
import { imageKey } from "../../domain/placement.ts";
import { bounded, type Rivals, type RivalsAsked, type RoomTake, rivalsTold, roomTake } from "../../domain/rivals.ts";
import type { WorkerImage, WorkerSpec } from "../worker-driver.ts";
import { tellOfWorker, type WorkerEvents } from "./host-frames.ts";
import { type LendChannel, LendLink } from "./lend-link.ts";
import type { OwnRoom } from "./shared-room.ts";

interface LentEvents extends WorkerEvents {
  /** It is known which workers run, or there may be room. */
  available(): void;
  /** It is to finish what it has, then go. */
  drains(workerId: string, why: string): void;
  /** What this platform's endpoints wait for. */
  wants(): readonly RoomWant[];
  readonly room: OwnRoom;
}

interface Waiting extends PromiseWithResolvers<void> {
  readonly report: (line: string) => void;
}

interface Kept {
  readonly image: WorkerImage;
  /** Who asked for it and waits. */
  readonly waiting: Waiting[];
}

interface Stop {
  readonly workerId: string;
  readonly graceMs: number;
  tries: number;
}

export class LentMachines {
  readonly #events: LentEvents;
  /** Of endpoints that are this platform's: whoever lends next is to prepare them too. */
  readonly #images = new Map<string, Kept>();
  /** Ends that nobody has carried out yet, by worker. */
  readonly #stops = new Map<string, Stop>();
  #link: LendLink | undefined;

  constructor(events: LentEvents) {
    this.#events = events;
  }

  attach(channel: LendChannel): void {
    this.#link?.destroy();
    const link: LendLink = new LendLink(channel, {
      who: "The platform that has the machines",
      asked: (call, body) => this.#asked(call, body),
      happened: (event, body) => this.#happened(event, body),
      closed: () => {
        if (this.#link === link) this.#link = undefined;
      },
    });
    this.#link = link;
    for (const kept of this.#images.values()) this.#prepareBy(link, kept);
    for (const stop of this.#stops.values()) this.#stopBy(link, stop);
    this.#events.available();
  }

  detach(): void {
    this.#link?.destroy();
  }

  /** As takeImages, of the ends that are still to come. */
  takeStops(): readonly Pick<Stop, "workerId" | "graceMs">[] {
    const stops = [...this.#stops.values()];
    this.#stops.clear();
    return stops;
  }

  /** The images that are in use: this platform has the machines itself now, and whoever waits goes on waiting for those. */
  takeImages(prepare: (image: WorkerImage, report: (line: string) => void) => Promise<void>): void {
    for (const { image, waiting } of this.#images.values()) settled(waiting, (report) => prepare(image, report));
    this.#images.clear();
  }

  prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const key = imageKey(image);
    const kept = { image, waiting: this.#images.get(key)?.waiting ?? [] };
    this.#images.set(key, kept);
    const waiting = { ...Promise.withResolvers<void>(), report };
    kept.waiting.push(waiting);
    if (this.#link === undefined) report("waiting for the platform that has the machines");
    else this.#prepareBy(this.#link, kept);
    return waiting.promise;
  }

  async start(spec: WorkerSpec): Promise<void> {
    try {
      await this.#ask("start", { spec });
    } catch (error) {
      // It may come up nevertheless, while it is started elsewhere: then it is one too many.
      if (error instanceof SvcError && error.code === "STARTS_PAUSED") this.stop(spec.workerId, 0);
      throw error;
    }
  }

  /** Resolves when it is on its way; while nobody lends, the end waits for the next that does. */
  stop(workerId: string, graceMs: number): void {
    const stop = { workerId, graceMs, tries: 0 };
    this.#stops.set(workerId, stop);
    if (this.#link !== undefined) this.#stopBy(this.#link, stop);
  }

  /** Undefined: it is not known. */
  async list(): Promise<readonly string[] | undefined> {
    return idsOf(await this.#ask("list").catch(() => undefined));
  }

  /** Undefined: it is not known. */
  async capacity(): Promise<LentCapacity | undefined> {
    const answer = await this.#ask("capacity").catch(() => undefined);
    return answer === undefined ? undefined : lentCapacity(answer);
  }

  async vouched(): Promise<readonly string[]> {
    return idsOf(await this.#ask("vouched").catch(() => undefined)) ?? [];
  }

  async rivals(asked: RivalsAsked): Promise<Rivals> {
    return rivalsTold(await this.#ask("rivals", asked));
  }

  async take(asked: RoomTake): Promise<void> {
    await this.#ask("take", asked);
  }

  retire(endpointId: string, revision: string): void {
    this.#link?.ask("retire", { endpointId, revision }).catch(() => {}); // Whoever lends next knows no zygote.
  }

  /** No worker starts from any but these. */
  keepOnly(keep: readonly WorkerImage[]): void {
    const kept = new Set(keep.map(imageKey));
    for (const [key, { waiting }] of this.#images) {
      if (!kept.has(key) && waiting.length === 0) this.#images.delete(key);
    }
  }

  async #asked(call: string, body: Buffer): Promise<object> {
    const { wants, room } = this.#events;
    switch (call) {
      case "wants":
        return { wants: wants() };
      case "room": {
        const { waits } = (body.length > 0 ? JSON.parse(body.toString("utf8")) : {}) as { waits?: unknown };
        return bounded(await room.side(waits === true));
      }
      case "take":
        await room.give(roomTake(JSON.parse(body.toString("utf8"))));
        return {};
    }
    throw new SvcError("STARTS_PAUSED", "This platform lends nothing.");
  }

  #ask(...asked: Parameters<LendLink["ask"]>): Promise<unknown> {
    if (this.#link !== undefined) return this.#link.ask(...asked);
    return Promise.reject(new SvcError("STARTS_PAUSED", "The platform that has the machines is away."));
  }

  #prepareBy(link: LendLink, { image, waiting }: Kept): void {
    const isOver = () => this.#link !== link; // The next that lends is asked again.
    const prepare = (report: (line: string) => void) => link.ask("prepare", { image, layers: [] }, report);
    settled(waiting, prepare, isOver);
  }

  /** Who lends may not know yet whose the worker is, and refuse; the next one is told as soon as it is there. */
  #stopBy(link: LendLink, stop: Stop): void {
    const { workerId, graceMs } = stop;
    const isMeant = () => this.#link === link && this.#stops.get(workerId) === stop;
    const over = () => {
      if (isMeant()) this.#stops.delete(workerId);
    };
    link.ask("stop", { workerId, graceMs }).then(over, () => {
      if (++stop.tries >= LENT_STOP_TRIES_MAX) return over();
      setTimeout(() => isMeant() && this.#stopBy(link, stop), LENT_STOP_AGAIN_MS).unref();
    });
  }

  #happened(event: EventHead, body: Buffer): void {
    const { event: name, workerId = "", of } = event;
    if (name === "exited") this.#stops.delete(workerId);
    if (name === "available") this.#events.available();
    else if (name === "drains") this.#events.drains(workerId, String((of as { why?: unknown } | undefined)?.why));
    else tellOfWorker(event, body, this.#events);
  }
}

function idsOf(answer: unknown): string[] | undefined {
  const { workers } = (answer ?? {}) as { workers?: unknown };
  return Array.isArray(workers) ? workers.filter((id): id is string => typeof id === "string") : undefined;
}

/** All that wait have what comes of it, unless it is over for another reason. */
function settled(
  waiting: Waiting[],
  act: (report: (line: string) => void) => Promise<unknown>,
  isOver = () => false,
): void {
  const report = (line: string) => {
    for (const one of waiting) one.report(line);
  };
  act(report).then(
    () => {
      for (const { resolve } of waiting.splice(0)) resolve();
    },
    (error: unknown) => {
      if (!isOver()) for (const { reject } of waiting.splice(0)) reject(error);
    },
  );
}
