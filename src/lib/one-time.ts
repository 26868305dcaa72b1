/** Asked when somebody first wants it, and again until there is an answer, which is kept. */
export function oneTime<T>(ask: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | undefined;
  return () => {
    known ??= ask().catch((error) => {
      known = undefined;
      throw error;
    });
    return known;
  };
}
