/**
 * Links to all other platforms on the database: who is in the table, and listens, is dialled; a link that breaks is dialled again. One whose
 * port refuses has ended.
 */
import { setTimeout as pause } from "node:timers/promises";
import { REPLICA_BEAT_MS, REPLICA_FORGET_MS, REPLICA_REDIAL_MIN_MS } from "../domain/limits.ts";
import type { Backing } from "../gateway-link/backing.ts";
import type { Log } from "../lib/log.ts";
import type { Own } from "../lib/own.ts";
import type { ReplicaRow, SeenReplica } from "../postgres/replicas.ts";
import type { LinkTold, PlatformLink } from "./platform-link.ts";
import { isRefused } from "./replica-address.ts";

interface LinksNeeds {
  readonly me: string;
  readonly list: () => Promise<readonly SeenReplica[]>;
  readonly dial: (row: ReplicaRow, told: LinkTold) => Promise<PlatformLink>;
  /** Who can be asked, or who has the database, may be another now. */
  readonly changed: () => void;
  /** Nobody listens any more where it was linked to. */
  readonly ended: (id: string) => void;
  readonly log: Log;
  readonly own: Own;
}

interface Known {
  readonly place: string;
  link: PlatformLink | undefined;
  isDialling: boolean;
  wasLinked: boolean;
  /** It said that it gives away what it has. */
  leaves: boolean;
  /** Why it cannot be reached was said. */
  isTold: boolean;
}

export class PlatformLinks {
  readonly #needs: LinksNeeds;
  readonly #known = new Map<string, Known>();
  readonly #closing = new AbortController();
  #nudged = new AbortController();
  #first = "";
  #loop: Promise<void> | undefined;

  constructor(needs: LinksNeeds) {
    this.#needs = needs;
  }

  start(): void {
    this.#loop = this.#look();
    this.#needs.own("looking for other platforms", this.#loop);
  }

  /** Who has the database, as far as is known; "" when nobody does. */
  get first(): string {
    return this.#first;
  }

  link(id: string): PlatformLink | undefined {
    return this.#known.get(id)?.link;
  }

  backing(id: string): Backing | undefined {
    return this.link(id)?.backing;
  }

  *all(): Iterable<PlatformLink> {
    for (const { link } of this.#known.values()) if (link !== undefined) yield link;
  }

  *backings(): Iterable<Backing> {
    for (const { backing } of this.all()) yield backing;
  }

  /** How many are linked. */
  get count(): number {
    return [...this.backings()].length;
  }

  tellAll(what: "look"): void {
    for (const { link } of this.#known.values()) link?.link.tell(what, {});
  }

  nudge(): void {
    this.#nudged.abort();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.nudge();
    await this.#loop;
    for (const { link } of this.#known.values()) link?.link.destroy();
    this.#known.clear();
  }

  async #look(): Promise<void> {
    const { list, me, changed } = this.#needs;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      this.#nudged = new AbortController();
      // While the database is away all stay who they were.
      const rows = await list().catch(() => undefined);
      if (rows !== undefined && !signal.aborted) {
        const first = rows.find(({ owns }) => owns)?.id ?? "";
        if (first !== this.#first) {
          this.#first = first;
          changed();
        }
        this.#dialAll(rows.filter(({ id, address }) => id !== me && address !== ""));
      }
      const isLinked = this.#first === me || this.backing(this.#first) !== undefined;
      const woken = AbortSignal.any([signal, this.#nudged.signal]);
      const waitMs = isLinked ? REPLICA_BEAT_MS : REPLICA_REDIAL_MIN_MS;
      await pause(waitMs, undefined, { signal: woken, ref: false }).catch(() => {});
    }
  }

  #dialAll(rows: readonly SeenReplica[]): void {
    const there = new Set(rows.map(({ id }) => id));
    for (const [id, { link, isDialling }] of this.#known) {
      if (!there.has(id) && link === undefined && !isDialling) this.#known.delete(id);
    }
    for (const row of rows) {
      const fresh = {
        place: row.place,
        link: undefined,
        isDialling: false,
        wasLinked: false,
        leaves: false,
        isTold: false,
      };
      const known = this.#known.get(row.id) ?? fresh;
      if (known === fresh && row.silentMs > REPLICA_FORGET_MS) continue;
      this.#known.set(row.id, known);
      if (known.link === undefined && !known.isDialling)
        this.#needs.own("a link to a platform", this.#dial(row, known));
    }
  }

  async #dial(row: ReplicaRow, known: Known): Promise<void> {
    const { dial, changed, ended } = this.#needs;
    known.isDialling = true;
    try {
      const gone = () => {
        known.link = undefined;
        changed();
        // Has it ended, or did only the link?
        this.nudge();
      };
      const leaves = () => {
        known.leaves = true;
      };
      const link = await dial(row, { gone, leaves });
      if (this.#closing.signal.aborted) return link.link.destroy();
      known.link = link;
      known.wasLinked = true;
      known.leaves = known.isTold = false;
      this.#needs.log.info("is linked to another platform", { place: row.place, address: row.address });
      changed();
    } catch (error) {
      const hasEnded = known.wasLinked && isRefused(error);
      this.#tell(row, known, hasEnded, error);
      if (!hasEnded) return;
      // Once for each link: one that lives all the same, behind a way that refuses, would lose its shards again and again.
      known.wasLinked = false;
      ended(row.id);
    } finally {
      known.isDialling = false;
    }
  }

  /** Once for each link. Until one that leaves has ended it lets nobody in any more, which is no fault. */
  #tell({ place }: ReplicaRow, known: Known, hasEnded: boolean, error: unknown): void {
    if (known.isTold || this.#closing.signal.aborted || (known.leaves && !hasEnded)) return;
    known.isTold = true;
    const { log } = this.#needs;
    if (known.leaves) log.info("another platform on the database has ended", { place });
    else log.error("another platform on the database cannot be reached", { place, reason: (error as Error).message });
  }
}
