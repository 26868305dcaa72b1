/**
 * The lender's end of one borrower's link: starts workers of the borrower's endpoints on the machines that hang on this platform, and tells
 * it of them. A borrower is another platform on the database, and is believed what it says of its own endpoints alone.
 */
import { SvcError } from "../../domain/errors.ts";
import { type EventHead, type LentCapacity, type RoomWant, roomWants } from "../../domain/host-protocol.ts";
import { RIVAL_KNOWN_MS, RIVAL_SIDE_MAX_MS } from "../../domain/limits.ts";
import type { HostMachine } from "../../domain/placement.ts";
import {
  NO_RIVALS,
  type Rivals,
  type RivalsAsked,
  type RoomSide,
  type RoomTake,
  rivalsAsked,
  roomSide,
  roomTake,
} from "../../domain/rivals.ts";
import type { WorkerDriver, WorkerSpec } from "../worker-driver.ts";
import { askBody } from "./host-asks.ts";
import { type LendChannel, LendLink } from "./lend-link.ts";

interface LenderOptions {
  readonly machines: Pick<WorkerDriver, "prepare" | "stop" | "list" | "vouched" | "retire" | "capacity">;
  /** On a machine that has room; from now on the worker is the endpoint's. */
  readonly start: (spec: WorkerSpec) => Promise<void>;
  /** Whether the borrower has this endpoint. */
  readonly has: (endpointId: string) => boolean;
  /** The endpoint of a worker; undefined: none is known. */
  readonly endpointOf: (workerId: string) => Promise<string | undefined>;
  /** What all others hold and wait for, */
  readonly rivals: (asked: RivalsAsked) => Promise<Rivals>;
  /** and for the one that has a worker: it is to make room. */
  readonly take: (asked: RoomTake) => Promise<void>;
  readonly closed: () => void;
}

interface Side {
  readonly at: number;
  readonly told: Promise<RoomSide>;
  isTold: boolean;
}

export class Lender {
  readonly #options: LenderOptions;
  readonly #link: LendLink;
  /** As it was asked for last. */
  #side: Side | undefined;

  constructor(channel: LendChannel, options: LenderOptions) {
    this.#options = options;
    this.#link = new LendLink(channel, {
      who: "The platform that has the endpoint",
      asked: (call, body, report) => this.#asked(call, body, report),
      happened: () => {},
      closed: options.closed,
    });
  }

  tell(event: EventHead, body?: Uint8Array): void {
    this.#link.tell(event, body);
  }

  /** What its endpoints wait for; nothing while it does not say so. */
  async wants(): Promise<readonly RoomWant[]> {
    const wants = roomWants(await this.#link.ask("wants"));
    return wants.filter(({ endpointId }) => this.#options.has(endpointId));
  }

  /** What its endpoints hold and wait for, as it was a moment ago. One that has not answered for long is not waited for again. */
  async side(waits: boolean): Promise<RoomSide> {
    const { at = 0, isTold = true, told } = this.#side ?? {};
    const agoMs = performance.now() - at;
    if (told !== undefined && isTold && agoMs < RIVAL_KNOWN_MS) return told;
    if (told !== undefined && !isTold) return agoMs < RIVAL_SIDE_MAX_MS ? told : NO_RIVALS;
    const side: Side = { at: performance.now(), isTold: false, told: this.#askSide(waits) };
    this.#side = side;
    const settled = () => {
      side.isTold = true;
    };
    side.told.then(settled, settled);
    return side.told;
  }

  async #askSide(waits: boolean): Promise<RoomSide> {
    const { contenders, leaving } = roomSide(await this.#link.ask("room", { waits }));
    return { contenders: contenders.filter(({ id }) => this.#options.has(id)), leaving };
  }

  /** Throws when the worker is not to go. */
  async give(asked: RoomTake): Promise<void> {
    await this.#link.ask("take", asked);
    this.#side = undefined;
  }

  destroy(): void {
    this.#link.destroy();
  }

  async #asked(call: string, body: Buffer, report: (line: string) => void): Promise<object> {
    const { machines, start, rivals, take } = this.#options;
    switch (call) {
      case "prepare": {
        const { image } = askBody("prepare", body);
        // Also for an endpoint that is on its way to the borrower.
        await machines.prepare(image, report);
        return {};
      }
      case "start": {
        const { spec } = askBody("lend", body);
        this.#mustHave(spec.image.endpointId);
        await start(spec);
        return {};
      }
      case "stop": {
        const { workerId, graceMs } = askBody("stop", body);
        const endpointId = await this.#options.endpointOf(workerId);
        if (endpointId !== undefined) this.#mustHave(endpointId);
        if ((await machines.list()) === undefined) throw new SvcError("STARTS_PAUSED", "Machines are still to come.");
        await machines.stop(workerId, graceMs);
        return {};
      }
      case "retire": {
        const { endpointId, revision } = askBody("retire", body);
        this.#mustHave(endpointId);
        await machines.retire(endpointId, revision);
        return {};
      }
      case "list":
        return { workers: (await machines.list()) ?? null };
      case "capacity": {
        const { machines: all = [], shares } = await machines.capacity();
        return { machines: all.map(lentMachine), shares: [...shares] };
      }
      case "vouched":
        return { workers: await machines.vouched() };
      case "rivals":
        return rivals(rivalsAsked(JSON.parse(body.toString("utf8"))));
      case "take":
        await take(roomTake(JSON.parse(body.toString("utf8"))));
        return {};
    }
    throw new SvcError("STARTS_PAUSED", `The platform that has the machines does not know the call "${call}".`);
  }

  /** It may be so in a moment: who has an endpoint is known a little later elsewhere. */
  #mustHave(endpointId: string): void {
    if (this.#options.has(endpointId)) return;
    throw new SvcError("STARTS_PAUSED", "Another platform has this endpoint.");
  }
}

function lentMachine(one: HostMachine): LentCapacity["machines"][number] {
  const { id, name, labels, sharedVolumes, closed, kept, prepared = new Set(), potential } = one;
  const { hardware, vcpus, memoryGb, gpus, emulatesGpu } = one;
  const machine = { hardware, vcpus, memoryGb, gpus, emulatesGpu };
  const only = kept !== undefined && { kept, prepared: [...(prepared as ReadonlySet<string>)] };
  return { ...machine, id, name, labels, sharedVolumes, closed, ...only, ...(potential && { potential }) };
}
