/** The same promise, which rejects as soon as the signal is aborted; what it stood for goes on by itself then. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const aborted = () => reject(signal.reason);
  if (signal.aborted) aborted();
  signal.addEventListener("abort", aborted, { once: true });
  work.catch(() => {});
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", aborted);
  }
}
