/** Ids and numbers of endpoints, also of those whose jobs another replica has: their rows are there for all. */
import type { PostgresCore } from "./core.ts";

interface Named {
  readonly number: number;
  readonly id: string;
}

export class EndpointNames {
  readonly #core: PostgresCore;

  constructor(core: PostgresCore) {
    this.#core = core;
  }

  /** Undefined where it was removed since a row of it was read. */
  async idOf(number: number): Promise<string | undefined> {
    const known = this.#core.live.idOf(number);
    if (known !== undefined) return known;
    await this.#read("number = $1", number);
    return this.#core.live.idOf(number);
  }

  /** 0: it has no row. */
  async numberOf(id: string): Promise<number> {
    const { live, ownership } = this.#core;
    const number = live.endpoints.get(id)?.number ?? 0;
    if (number > 0 || ownership.hasAll) return number;
    return (await this.#read("id = $1", id))[0]?.number ?? 0;
  }

  /** Those of other replicas. */
  async knowAll(): Promise<void> {
    if (!this.#core.ownership.hasAll) await this.#read("$1", true);
  }

  async #read(where: string, value: unknown): Promise<readonly Named[]> {
    const rows = await this.#core.db.read<Named>(`SELECT number, id FROM queue_endpoints WHERE ${where}`, [value]);
    this.#core.live.elsewhere(rows);
    return rows;
  }
}
