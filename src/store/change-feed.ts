/**
 * What changed in the store, whoever changed it: the rows of `changes` in order of their commits.
 *
 *   every CHANGES_POLL_MS, and after each own write ──▶ rows above the last number ──▶ listeners, each change once
 *
 * A write resolves after its change was told, so that a key that was revoked is refused here from then on; other platforms hear of it with their
 * next look.
 */
import { CHANGES_KEPT_MS, CHANGES_POLL_MS, CHANGES_TRIM_MS } from "../domain/limits.ts";
import type { Postgres } from "../postgres/postgres.ts";
import type { StoreChange } from "./store.ts";

interface Row {
  readonly seq: number;
  readonly kind: StoreChange["table"];
  readonly id: string;
}

export class ChangeFeed {
  readonly #postgres: Postgres;
  /** What the row of the change looks like now. */
  readonly #read: (row: Pick<Row, "kind" | "id">) => Promise<StoreChange>;
  readonly #tell: (change: StoreChange) => Promise<void> | undefined;
  /** Changes of this process whose rows were not read yet: they need not be asked for. */
  readonly #own: StoreChange[] = [];
  #seq = 0;
  #looking: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #trimAt = 0;
  #closed = false;

  constructor(
    postgres: Postgres,
    read: (row: Pick<Row, "kind" | "id">) => Promise<StoreChange>,
    tell: (change: StoreChange) => Promise<void> | undefined,
  ) {
    this.#postgres = postgres;
    this.#read = read;
    this.#tell = tell;
  }

  /** From here on. */
  async open(): Promise<void> {
    const { rows } = await this.#postgres.query<{ seq: number }>("SELECT coalesce(max(seq), 0) AS seq FROM changes");
    this.#seq = rows[0]!.seq;
    this.#wait();
  }

  /** Tells changes that this process has just committed, after those that came before. Never rejects. */
  async announce(own: readonly StoreChange[]): Promise<void> {
    this.#own.push(...own);
    const known = await this.look().then(
      () => true,
      () => false,
    );
    for (const change of own) {
      const index = this.#own.indexOf(change);
      if (index < 0) continue;
      this.#own.splice(index, 1);
      // The database went away meanwhile: here at least it is known. Otherwise an earlier look has told it.
      if (!known) await this.#tell(change);
    }
  }

  /** Reads what is new. Resolves when all that was committed before the call has been told. */
  look(): Promise<void> {
    const next = this.#looking.catch(() => {}).then(() => this.#look());
    this.#looking = next;
    return next;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#looking.catch(() => {});
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      const done = () => {
        if (!this.#closed) this.#wait();
      };
      // While the database is away this look is also what finds it back.
      this.look()
        .then(() => this.#trim())
        .then(done, done);
    }, CHANGES_POLL_MS).unref();
  }

  async #look(): Promise<void> {
    const after = "SELECT seq, kind, id FROM changes WHERE seq > $1 ORDER BY seq";
    const { rows } = await this.#postgres.query<Row>(after, [this.#seq]);
    for (const row of rows) {
      const change = this.#takeOwn(row) ?? (await this.#read(row));
      this.#seq = row.seq;
      await this.#tell(change);
    }
  }

  #takeOwn({ kind, id }: Row): StoreChange | undefined {
    const index = this.#own.findIndex((own) => own.table === kind && own.id === id);
    return index < 0 ? undefined : this.#own.splice(index, 1)[0];
  }

  async #trim(): Promise<void> {
    const now = performance.now();
    if (now < this.#trimAt) return;
    this.#trimAt = now + CHANGES_TRIM_MS;
    await this.#postgres.query("DELETE FROM changes WHERE at < clock_timestamp() - $1 * interval '1 millisecond'", [
      CHANGES_KEPT_MS,
    ]);
  }
}
