/**
 * Room on machines that platforms share: whoever waits for some is told what endpoints of all the others hold and want, and has workers of
 * those asked to go. Who lends the machines passes both on. Of one that does not answer, or is of an earlier version, nothing is known:
 * its workers stay, and a message that is lost costs the time until whoever waits looks again.
 *
 *   waits ──rivals──▶ lends ──room──▶ each of the others, and itself      waits ──take──▶ lends ──take──▶ has the worker: does it, or not
 */
import { SvcError } from "../../domain/errors.ts";
import { RIVAL_ANSWER_MAX_MS, RIVAL_SIDE_MAX_MS } from "../../domain/limits.ts";
import type { Fleet } from "../../domain/placement.ts";
import {
  bounded,
  NO_RIVALS,
  type Rivals,
  type RivalsAsked,
  type RoomSide,
  type RoomTake,
  toldOf,
} from "../../domain/rivals.ts";
import type { OtherPlatforms } from "../worker-driver.ts";

/** This platform's own endpoints. */
export interface OwnRoom {
  side(waits: boolean): Promise<RoomSide>;
  /** Throws when it is not to go. */
  give(asked: RoomTake): Promise<void>;
}

interface SharedRoomOptions {
  readonly isFirst: () => boolean;
  readonly own: OwnRoom;
  readonly ownerOf: (endpointId: string) => string;
  readonly isMine: (endpointId: string) => boolean;
  /** Of the one that has the machines. */
  readonly fleet: () => Fleet;
  /** By platform. */
  readonly borrowers: ReadonlyMap<string, OwnRoom>;
  /** To the one that has them; rejects when there is none. */
  readonly lent: {
    rivals(asked: RivalsAsked): Promise<Rivals>;
    take(asked: RoomTake): Promise<void>;
  };
}

export class SharedRoom implements OtherPlatforms {
  readonly #options: SharedRoomOptions;

  constructor(options: SharedRoomOptions) {
    this.#options = options;
  }

  rivals(asked: RivalsAsked): Promise<Rivals> {
    const { isFirst, lent } = this.#options;
    return isFirst() ? this.rivalsOf(undefined, asked) : soon(lent.rivals(asked), NO_RIVALS, RIVAL_ANSWER_MAX_MS);
  }

  async take(asked: RoomTake): Promise<void> {
    const { isFirst, lent } = this.#options;
    await (isFirst() ? this.pass(asked) : inTime(lent.take(asked), RIVAL_ANSWER_MAX_MS));
  }

  /** For a platform that borrows; undefined: for this one. */
  async rivalsOf(borrower: string | undefined, { images, waits }: RivalsAsked): Promise<Rivals> {
    const { own, borrowers, fleet } = this.#options;
    const others = [...borrowers].flatMap(([id, one]) => (id === borrower ? [] : [one]));
    const asked = borrower === undefined ? others : [own, ...others];
    const sides = await Promise.all(asked.map((one) => soon(one.side(waits), NO_RIVALS, RIVAL_SIDE_MAX_MS)));
    return toldOf(fleet(), sides.map(bounded), images);
  }

  /** To whoever has the endpoint now. */
  async pass(asked: RoomTake): Promise<void> {
    const { own, borrowers, isMine, ownerOf } = this.#options;
    if (isMine(asked.endpointId)) return own.give(asked);
    const borrower = borrowers.get(ownerOf(asked.endpointId));
    if (borrower === undefined) throw new SvcError("STARTS_PAUSED", "The platform that has the endpoint is away.");
    await inTime(borrower.give(asked), RIVAL_SIDE_MAX_MS);
  }
}

async function soon<T>(work: Promise<T>, otherwise: T, maxMs: number): Promise<T> {
  return inTime(work, maxMs).catch(() => otherwise);
}

/** Rejects when it takes longer than others are held up for it. */
async function inTime<T>(work: Promise<T>, maxMs: number): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(new SvcError("STARTS_PAUSED", "Another platform did not answer in time."));
  }, maxMs).unref();
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
