/**
 * One platform has a database at a time:
 *
 *   no row ──▶ owned ──beat each second──▶ owned … ──close──▶ no row
 *                ▲ its beat stood still for OWNER_SILENT_MS of the observer's clock, it is known to be gone, or the row is of the same data
 *                │ directory
 *                └── another platform, which waits until then
 *
 * Nothing that is stored depends on these times: writes of the store go one after another, those of the queue are fenced.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import { OWNER_BEAT_MS, OWNER_SILENT_MS } from "../domain/limits.ts";
import type { Postgres } from "./postgres.ts";
import { makeTable } from "./tables.ts";

export interface OwnerOptions {
  /** Of this process; default: a new one. */
  readonly id?: string;
  /** Of the data directory, which one process uses at a time. */
  readonly home: string;
  /** Machine and data directory, for people. */
  readonly place: string;
  /** Told once, when another platform has it. */
  readonly waits: (place: string) => void;
  /** Another took it, for this one stood still too long. */
  readonly lost: (error: SvcError) => void;
  readonly silentMs?: number;
}

const TABLE = "platform_owner";
const COLUMNS = `one boolean PRIMARY KEY DEFAULT true CHECK (one), id text NOT NULL, home text NOT NULL, place text NOT NULL,
  beat bigint NOT NULL DEFAULT 0, since timestamptz NOT NULL DEFAULT now()`;

interface Row {
  readonly id: string;
  readonly place: string;
  readonly beat: number;
}

export class PlatformOwner {
  readonly #postgres: Postgres;
  readonly #options: OwnerOptions;
  readonly id: string;
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #gone: string | undefined;
  #nudged = new AbortController();
  #beating: Promise<void> = Promise.resolve();
  /** When the last beat was sent that found the database this platform's. */
  #sureAt = Number.NEGATIVE_INFINITY;

  constructor(postgres: Postgres, options: OwnerOptions) {
    this.#postgres = postgres;
    this.#options = options;
    this.id = options.id ?? randomUUID();
  }

  /** The process of this id, which had it, has ended: its silence need not be waited for. */
  gone(id: string): void {
    this.#gone = id;
    this.nudge();
  }

  /** Whether no other can have taken the database for the silence of this one. */
  get isSure(): boolean {
    return performance.now() - this.#sureAt < (this.#options.silentMs ?? OWNER_SILENT_MS);
  }

  /** Whoever waits looks at once. */
  nudge(): void {
    this.#nudged.abort();
  }

  /** Resolves when this platform has the database, however long another one keeps it. */
  async take(signal?: AbortSignal): Promise<void> {
    const { home, place, waits, silentMs = OWNER_SILENT_MS } = this.#options;
    await makeTable(this.#postgres, TABLE, COLUMNS);
    let seen: Row | undefined;
    let since = performance.now();
    for (let told = false; ; ) {
      const nudge = new AbortController();
      this.#nudged = nudge;
      const askedAt = performance.now();
      const stands = askedAt - since >= silentMs || (seen !== undefined && seen.id === this.#gone);
      const { rows } = await this.#postgres.query<Row>(
        `INSERT INTO platform_owner AS o (id, home, place) VALUES ($1, $2, $3)
         ON CONFLICT (one) DO UPDATE SET id = $1, home = $2, place = $3, beat = 0, since = now()
           WHERE o.home = $2 OR (o.id = $4 AND o.beat = $5)
         RETURNING id, place, beat`,
        [this.id, home, place, stands ? (seen?.id ?? null) : null, stands ? (seen?.beat ?? null) : null],
      );
      if (rows.length > 0) {
        this.#sureAt = askedAt;
        return this.#beat();
      }
      const other = await this.#read();
      if (other === undefined) continue;
      const isNew = other.id !== seen?.id || other.beat !== seen.beat;
      if (isNew) since = performance.now();
      seen = other;
      // It beat once more after it was looked at last.
      if (isNew && other.id === this.#gone) continue;
      if (!told) waits(other.place);
      told = true;
      const woken = signal === undefined ? nudge.signal : AbortSignal.any([signal, nudge.signal]);
      await pause(OWNER_BEAT_MS, undefined, { signal: woken }).catch(() => signal?.throwIfAborted());
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#beating;
    // Whoever waits sees without it that nothing beats any more.
    await this.#postgres.query("DELETE FROM platform_owner WHERE id = $1", [this.id]).catch(() => {});
  }

  async #read(): Promise<Row | undefined> {
    const { rows } = await this.#postgres.query<Row>("SELECT id, place, beat FROM platform_owner");
    return rows[0];
  }

  #beat(): void {
    if (this.#closing.signal.aborted) return;
    this.#timer = setTimeout(() => {
      // While the database is away nobody can take it either.
      this.#beating = this.#beatOnce().then(
        (isOurs) => {
          if (isOurs) this.#beat();
        },
        () => this.#beat(),
      );
    }, OWNER_BEAT_MS).unref();
  }

  async #beatOnce(): Promise<boolean> {
    const askedAt = performance.now();
    const beat = "UPDATE platform_owner SET beat = beat + 1 WHERE id = $1";
    if ((await this.#postgres.query(beat, [this.id])).rowCount === 1) {
      this.#sureAt = askedAt;
      return true;
    }
    // A standby that took over may lack the row.
    const { home, place, lost } = this.#options;
    const again = "INSERT INTO platform_owner (id, home, place) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    if ((await this.#postgres.query(again, [this.id, home, place])).rowCount === 1) return true;
    const other = await this.#read();
    if (other === undefined || other.id === this.id) return true;
    const message = `Another platform has taken the database: ${other.place}.`;
    lost(
      new SvcError("DATABASE_REFUSED", message, {
        where: this.#postgres.name,
        help: "This one did not answer for a while and ends now. Run one platform on a database at a time.",
      }),
    );
    return false;
  }
}
