/**
 * Layers of the platform on this machine: fetched over HTTP when they are first asked for, and kept as they came.
 *
 *   small: one GET · large: parts by Range, some at once, handed on in their order ─▶ partial file ─▶ SHA-256 ─▶ kept
 *
 * What broke off goes on behind what has arrived. Where the platform lets it, they come from its bucket, and from the platform when that
 * fails. Nothing that either says is believed: not its length, not its bytes, and no other address.
 */

import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { KeptLayers } from "../artifacts/kept-layers.ts";
import {
  LAYER_ANSWER_MAX_MS,
  LAYER_MEGABYTE_MAX_MS,
  LAYER_PART_BYTES,
  LAYER_PARTS_AT_ONCE,
  LAYER_RETRY_FIRST_MS,
  LAYER_TRIES_MAX,
} from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import type { LayerTicket } from "../domain/host-protocol.ts";
import { lackOf } from "../domain/storage.ts";
import { BucketWay } from "./bucket-way.ts";
import { reasonOf } from "./dial.ts";
import { type Range, Refused, requestLayer } from "./layer-request.ts";

const MB = 1024 * 1024;

interface FetchedLayersOptions {
  /** Base URL of the platform's HTTP side. */
  readonly platformUrl: string;
  /** Where they are kept on this machine. */
  readonly kept: ArtifactStore;
  /** What they may take there together; those that were not asked for longest go first. */
  readonly keptMaxBytes: number;
  /** The platform's bucket could not be asked for a layer: those come through the platform. */
  readonly bucketFailed?: (bucket: string, reason: string) => void;
  readonly retryFirstMs?: number;
}

export class FetchedLayers {
  readonly #options: FetchedLayersOptions;
  readonly #tickets = new Map<string, LayerTicket>();
  readonly #layers: KeptLayers;
  readonly #bucketWay: BucketWay;

  constructor(options: FetchedLayersOptions) {
    this.#options = options;
    this.#bucketWay = new BucketWay(options.bucketFailed ?? (() => {}));
    this.#layers = new KeptLayers({ ...options, fetch: (digest) => this.#fetch(digest) });
  }

  /** Call before all else. */
  async open(): Promise<void> {
    await this.#layers.open();
  }

  /** What the platform lets this machine fetch. A ticket is kept until a newer one, or the layer, is there. */
  allow(tickets: readonly LayerTicket[]): void {
    for (const ticket of tickets) if (!this.#layers.has(ticket.digest)) this.#tickets.set(ticket.digest, ticket);
  }

  /** The same as a store: who asks for a layer waits for it. */
  get store(): ArtifactStore {
    const { kept } = this.#options;
    return {
      ...kept,
      size: async (digest) => {
        await this.#layers.ensure(digest);
        return kept.size(digest);
      },
      open: async (digest) => {
        await this.#layers.ensure(digest);
        return kept.open(digest);
      },
      dropDamaged: (digest) => this.#layers.dropDamaged(digest),
    };
  }

  async #fetch(digest: string): Promise<void> {
    const ticket = this.#tickets.get(digest);
    if (ticket === undefined) {
      throw new SvcError("LAYER_MISSING", `This host was given no ticket for the layer ${digest}.`);
    }
    try {
      await this.#receive(ticket).catch((error: unknown) => {
        // What an earlier try left may be what is wrong; it is gone now.
        if (!(error instanceof SvcError) || error.code !== "LAYER_CORRUPT") throw error;
        this.#bucketWay.failed(ticket, "what came is not the layer");
        return this.#receive(ticket);
      });
    } catch (error) {
      throw inWords(error, ticket);
    }
    this.#tickets.delete(digest);
  }

  async #receive(ticket: LayerTicket): Promise<void> {
    const { kept } = this.#options;
    const { digest, bytes } = ticket;
    const there = (await kept.partialSize(digest)) ?? 0;
    const from = there < bytes ? there : 0;
    const whole = from === 0 && bytes <= LAYER_PART_BYTES;
    await kept.put(digest, Readable.from(whole ? this.#whole(ticket) : this.#parts(ticket, from)), bytes, from);
  }

  async *#whole(ticket: LayerTicket): AsyncGenerator<Buffer> {
    yield await this.#retried((signal) => this.#get(ticket, undefined, signal), ticket.bytes);
  }

  /** Ahead of what is written are never more than LAYER_PARTS_AT_ONCE parts. */
  async *#parts(ticket: LayerTicket, from: number): AsyncGenerator<Buffer> {
    const { bytes } = ticket;
    const ahead: Promise<Buffer>[] = [];
    const over = new AbortController();
    let next = from;
    const begin = () => {
      const end = Math.min(next + LAYER_PART_BYTES, bytes);
      const range = { from: next, to: end - 1 };
      const part = this.#retried((signal) => this.#get(ticket, range, signal), end - next, over.signal);
      part.catch(() => {}); // It is awaited in its turn, unless one before it failed.
      ahead.push(part);
      next = end;
    };
    try {
      while (next < bytes || ahead.length > 0) {
        while (next < bytes && ahead.length < LAYER_PARTS_AT_ONCE) begin();
        yield await ahead.shift()!;
      }
    } finally {
      over.abort(); // What is not waited for any more is not to come.
    }
  }

  async #retried(
    get: (signal: AbortSignal) => Promise<Buffer>,
    bytes: number,
    over = new AbortController().signal,
  ): Promise<Buffer> {
    for (let tries = 1; ; tries++) {
      const late = AbortSignal.timeout(LAYER_ANSWER_MAX_MS + Math.ceil(bytes / MB) * LAYER_MEGABYTE_MAX_MS);
      try {
        return await get(AbortSignal.any([late, over]));
      } catch (error) {
        const isFinal = error instanceof SvcError || error instanceof Refused || over.aborted;
        if (isFinal || tries === LAYER_TRIES_MAX) throw error;
        const pauseMs = (this.#options.retryFirstMs ?? LAYER_RETRY_FIRST_MS) * 2 ** (tries - 1);
        await delay(pauseMs, undefined, { signal: over });
      }
    }
  }

  async #get(ticket: LayerTicket, range: Range | undefined, signal: AbortSignal): Promise<Buffer> {
    const bucket = this.#bucketWay.of(ticket);
    if (bucket !== undefined) {
      try {
        const bytes = await requestLayer(bucket, ticket, range, signal);
        this.#bucketWay.worked();
        return bytes;
      } catch (error) {
        // Nobody waits for it any more: that says nothing of the bucket.
        if (signal.aborted && signal.reason?.name !== "TimeoutError") throw error;
        this.#bucketWay.failed(ticket, reasonOf(error));
        signal.throwIfAborted();
      }
    }
    const url = `${this.#options.platformUrl}/layers/${ticket.digest}`;
    const headers = { Authorization: `Bearer ${ticket.ticket}` };
    return await requestLayer({ who: "The platform", url, headers }, ticket, range, signal);
  }
}

function inWords(error: unknown, { digest }: LayerTicket): unknown {
  if (lackOf(error) === "room" || (error instanceof SvcError && error.code === "STORAGE_FULL")) {
    return new SvcError("STORAGE_FULL", "The disk of this host is full: a layer could not be stored.", {
      help: "Make room on the disk of its data directory.",
      cause: error,
    });
  }
  if (error instanceof SvcError && error.code === "LAYER_CORRUPT" && /hashes to/.test(error.message)) {
    return new SvcError("LAYER_CORRUPT", `What came for the layer ${digest} is something else.`, {
      help: "Look at what stands between this host and the platform.",
      cause: error,
    });
  }
  if (error instanceof SvcError) return error;
  if (error instanceof Refused) return error.cause;
  return new SvcError("PLATFORM_UNREACHABLE", `The layer ${digest} could not be fetched: ${reasonOf(error)}.`, {
    help: "What has arrived is kept; it goes on there when the endpoint is prepared again.",
    cause: error,
  });
}
