/**
 * Bodies that no row names: put just before a crash, or before a batch whose outcome was lost. They are looked for among those put
 * on days before yesterday, so that none is on its way to a row.
 *
 *   listed ──▶ not named in memory, not held ──▶ not named in the rows either ──▶ deleted
 *
 * Memory says it of nearly all; the rows decide, for a platform that another has taken over from does not know what that named.
 */
import { BODY_SWEEP_MS, BODY_SWEEP_NAMES } from "../../domain/limits.ts";
import type { PostgresCore } from "./core.ts";

const DAY_MS = 24 * 3_600_000;
const NAMED = `SELECT input_ref AS ref FROM open_jobs WHERE input_ref = ANY($1)
  UNION ALL SELECT output_ref FROM open_jobs WHERE output_ref = ANY($1)
  UNION ALL SELECT input_ref FROM done_jobs WHERE input_ref = ANY($1)
  UNION ALL SELECT output_ref FROM done_jobs WHERE output_ref = ANY($1)
  UNION ALL SELECT error_ref FROM done_jobs WHERE error_ref = ANY($1)
  UNION ALL SELECT ref FROM job_chunks WHERE ref = ANY($1)`;

export class OrphanedBodies {
  readonly #core: PostgresCore;
  /** By the monotonic clock. */
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(core: PostgresCore) {
    this.#core = core;
  }

  /** Resolves how many were deleted; looks only when it is time again. */
  async sweep(): Promise<number> {
    const now = this.#core.monotonic();
    if (now < this.#nextAt) return 0;
    this.#nextAt = now + BODY_SWEEP_MS;
    let deleted = 0;
    let names: string[] = [];
    for await (const name of this.#core.bodies.listed(this.#core.clock() - DAY_MS)) {
      names.push(name);
      if (names.length < BODY_SWEEP_NAMES) continue;
      deleted += await this.#deleteOrphans(names);
      names = [];
    }
    return deleted + (await this.#deleteOrphans(names));
  }

  async #deleteOrphans(names: readonly string[]): Promise<number> {
    if (names.length === 0) return 0;
    const { bodies, live, taking } = this.#core;
    const orphans = await this.#core.run((found: readonly string[]) => found, {
      // Nothing is being written then: what is in memory is in the rows.
      load: async (query) => {
        const isKnown = (name: string) =>
          bodies.isHeld(name) || taking.has(name) || [...live.endpoints.values()].some(({ files }) => files.has(name));
        const unknown = names.filter((name) => !isKnown(name));
        if (unknown.length === 0) return [];
        const named = new Set((await query<{ ref: string }>(NAMED, [unknown])).map(({ ref }) => ref));
        return unknown.filter((name) => !named.has(name));
      },
    });
    await bodies.delete(orphans);
    return orphans.length;
  }
}
