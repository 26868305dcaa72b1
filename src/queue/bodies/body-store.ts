/**
 * Bodies too large for a row, by name. A body is put before the row that names it and deleted after that row; what a crash leaves
 * in between is found by `list`.
 */
export interface BodyStore {
  /** On the disk, or in the bucket, when it resolves. A name is put once, or again with the same bytes. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** Undefined when it is not there. */
  get(name: string): Promise<Uint8Array | undefined>;
  /** Fine when some are not there. All are tried; the first error is thrown then. */
  delete(names: readonly string[]): Promise<void>;
  /** Names of bodies of jobs that were made on days before that of `before` (milliseconds since the epoch), oldest day first. */
  list(before: number): AsyncIterable<string>;
}

/** The n-th of a job's bodies: its input, its output, or a chunk of its stream. */
export type BodyPart = "in" | "out" | number;

/** `<yyyymmdd>/<job>/<part>`, with the day (UTC) on which the job was made: what is left of a day lies together. */
export function bodyName(createdAt: number, jobId: string, part: BodyPart): string {
  return `${dayOf(createdAt)}/${jobId}/${part}`;
}

/** yyyymmdd, UTC. */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10).replaceAll("-", "");
}

export const DAY = /^\d{8}$/;

/** Calls `remove` for each, `atOnce` at a time. Throws the first error when all were tried. */
export async function deleteAll(
  names: readonly string[],
  atOnce: number,
  remove: (name: string) => Promise<void>,
): Promise<void> {
  const errors: unknown[] = [];
  const next = names[Symbol.iterator]();
  const one = async () => {
    for (const name of next) await remove(name).catch((error: unknown) => errors.push(error));
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, names.length) }, one));
  if (errors.length > 0) throw errors[0];
}
