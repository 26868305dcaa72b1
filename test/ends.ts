/** What this process has started and is to end before it ends itself, also when it is told to: of what no child's end takes along. */
const ends = new Set<() => Promise<void>>();

/** Returns what is called once it has ended. */
export function endsWith(stop: () => Promise<void>): () => void {
  ends.add(stop);
  return () => void ends.delete(stop);
}

/** The newest first; what cannot be ended keeps nothing else. */
export async function endAll(): Promise<void> {
  for (const stop of [...ends].reverse())
    await stop().catch((error: unknown) => console.error(error instanceof Error ? error.message : error));
}
