export interface Cached<V> {
  /** At once when it is known; a promise on the first look-up and after a change. */
  find(key: string): V | undefined | Promise<V | undefined>;
  /** What is kept under this name is old. */
  changed(name: string): void;
}

/**
 * A bounded memory in front of `load`. What is not found is not kept. `nameOf` says by which name a change speaks of a value;
 * without it that is its key. Several
 * values may have one name.
 */
export function cached<V>(
  max: number,
  load: (key: string) => Promise<V | undefined>,
  nameOf: (value: V, key: string) => string = (_value, key) => key,
): Cached<V> {
  const known = new Map<string, V>();
  const keys = new Map<string, Set<string>>();
  let changes = 0;

  async function fill(key: string): Promise<V | undefined> {
    const before = changes;
    const value = await load(key);
    // A change during the look-up may have made this answer old: it is right for now, but not kept.
    if (value === undefined || changes !== before) return value;
    if (known.size >= max) {
      known.clear();
      keys.clear();
    }
    known.set(key, value);
    const name = nameOf(value, key);
    keys.set(name, (keys.get(name) ?? new Set()).add(key));
    return value;
  }

  return {
    find: (key) => known.get(key) ?? fill(key),
    changed(name) {
      changes++;
      for (const key of keys.get(name) ?? []) known.delete(key);
      keys.delete(name);
    },
  };
}
