/**
 * Turns bodies into what their row holds: small ones stay bytes, large ones are put elsewhere first, as far as their
 * endpoint has room for them. That takes turns of the event loop, so what a job says later waits for what it said before.
 */
import { SvcError } from "../../domain/errors.ts";
import { INLINE_BODY_MAX_BYTES } from "../../domain/limits.ts";
import { explained, lackOf } from "../../domain/storage.ts";
import { type Body, sizeOf } from "./job-row.ts";
import type { QueueMachine } from "./machine.ts";

type Bytes = Uint8Array | null;
type Stored = Body | null;
type Write<T> = (stored: readonly Stored[]) => Promise<T>;

/** Where bodies lie that are too large for a row. */
export interface BodyPlace {
  /** How a row refers to these bytes; what is behind its last dot is their number. */
  refer(jobId: string, bytes: Uint8Array): Promise<string>;
  /** Puts the bytes where the reference says; there they stay at least until release(). */
  hold(reference: string, bytes: Uint8Array): Promise<void>;
  /** The row that names it is committed, or will never be. `failed`: for all that is known it is not. */
  release(reference: string, failed: boolean): void;
}

/** Whose files they will be. Chunks have bounds of their own. */
export interface Room<T> {
  readonly endpointId: string;
  /** In place of the write when the endpoint's files would be more than are kept. */
  readonly full: (error: SvcError) => Promise<T>;
}

export class StoredBodies {
  readonly #core: Pick<QueueMachine, "live" | "bounds" | "storage">;
  readonly #place: BodyPlace;
  /** Job → its last write that is under way. */
  readonly #last = new Map<string, Promise<unknown>>();
  /** Endpoint → bytes of files that are being written, whose rows are not there yet. */
  readonly #coming = new Map<string, number>();

  constructor(core: Pick<QueueMachine, "live" | "bounds" | "storage">, place: BodyPlace) {
    this.#core = core;
    this.#place = place;
  }

  /** Calls `write` with the stored form of `bodies`, after the earlier writes of the same job. */
  store<T>(jobId: string, bodies: readonly Bytes[], write: Write<T>, room?: Room<T>): Promise<T> {
    return this.#inTurn(jobId, bodies, write, room, (work) => work());
  }

  /** As store, for what must not be lost: while it cannot be written it waits, and so does what the job says later. */
  keep<T>(jobId: string, bodies: readonly Bytes[], write: Write<T>, room?: Room<T>): Promise<T> {
    return this.#inTurn(jobId, bodies, write, room, (work) => this.#core.storage.keep(work));
  }

  /** As store, for what may be dropped when it cannot be written. */
  async try(jobId: string, bodies: readonly Bytes[], write: Write<void>, room?: Room<void>): Promise<void> {
    if (this.#core.storage.lack !== undefined) return;
    try {
      await this.store(jobId, bodies, write, room);
    } catch (error) {
      if (lackOf(error) === undefined) throw error;
    }
  }

  #inTurn<T>(
    jobId: string,
    bodies: readonly Bytes[],
    write: Write<T>,
    room: Room<T> | undefined,
    attempt: (work: () => Promise<T>) => Promise<T>,
  ): Promise<T> {
    const before = this.#last.get(jobId);
    if (before === undefined && bodies.every(isSmall)) return attempt(() => write(bodies));
    const written = (before ?? Promise.resolve()).then(() => attempt(() => this.#write(jobId, bodies, write, room)));
    const over = () => {
      if (this.#last.get(jobId) === settled) this.#last.delete(jobId);
    };
    const settled = written.then(over, over);
    this.#last.set(jobId, settled);
    return written;
  }

  /** As store(), of the reason why jobs of the endpoint fail together: `fail` gets it as it is stored. */
  reason(endpointId: string, error: string, fail: (stored: Body) => Promise<number>): Promise<number> {
    return this.store(`of ${endpointId}`, [Buffer.from(error)], ([stored]) => fail(stored!), {
      endpointId,
      full: ({ message }) => fail(Buffer.from(`the reason cannot be kept. ${message}`)),
    });
  }

  /** Resolves, never rejects, when what the job said so far is written; undefined when nothing is under way. */
  underWay(jobId: string): Promise<unknown> | undefined {
    return this.#last.get(jobId);
  }

  /** Resolves when everything under way is done. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }

  async #write<T>(jobId: string, bodies: readonly Bytes[], write: Write<T>, room: Room<T> | undefined): Promise<T> {
    const stored = await Promise.all(bodies.map((body) => (isSmall(body) ? body : this.#place.refer(jobId, body!))));
    const taken = room === undefined ? 0 : this.#lacking(room.endpointId, stored);
    const full = room && this.#whyFull(room.endpointId, taken);
    if (full !== undefined) return room!.full(full);
    if (room !== undefined) this.#take(room.endpointId, taken);
    const held: string[] = [];
    let failed = true;
    try {
      for (const [i, reference] of stored.entries()) {
        if (typeof reference !== "string") continue;
        await this.#hold(reference, bodies[i]!);
        held.push(reference);
      }
      const written = await write(stored);
      failed = false;
      return written;
    } finally {
      for (const reference of held) this.#place.release(reference, failed);
      if (room !== undefined) this.#take(room.endpointId, -taken);
    }
  }

  /** Bytes of the files among them that no row of the endpoint names yet. */
  #lacking(endpointId: string, stored: readonly Stored[]): number {
    const files = this.#core.live.endpoints.get(endpointId)?.files;
    let bytes = 0;
    for (const body of stored) if (typeof body === "string" && !files?.has(body)) bytes += sizeOf(body);
    return bytes;
  }

  #whyFull(endpointId: string, bytes: number): SvcError | undefined {
    const { bodiesKeptMax } = this.#core.bounds;
    const kept = this.#core.live.endpoints.get(endpointId)?.files.bytes ?? 0;
    if (bytes === 0 || kept + (this.#coming.get(endpointId) ?? 0) + bytes <= bodiesKeptMax) return undefined;
    return new SvcError(
      "BODIES_FULL",
      `The inputs, outputs and errors above 64 KiB of this endpoint's jobs take at most ${bodiesKeptMax} bytes together (SVC_BODIES_LIMIT_MB); ${bytes} more do not fit.`,
      {
        help: "Submit again later, pass links to large data instead of the data, keep results for a shorter time, or raise SVC_BODIES_LIMIT_MB.",
      },
    );
  }

  #take(endpointId: string, bytes: number): void {
    const coming = (this.#coming.get(endpointId) ?? 0) + bytes;
    if (coming > 0) this.#coming.set(endpointId, coming);
    else this.#coming.delete(endpointId);
  }

  async #hold(reference: string, body: Uint8Array): Promise<void> {
    try {
      await this.#place.hold(reference, body);
    } catch (error) {
      this.#core.storage.noticed(error);
      throw explained(error);
    }
  }
}

function isSmall(body: Bytes): boolean {
  return body === null || body.byteLength <= INLINE_BODY_MAX_BYTES;
}
