/**
 * Calls `call` when `ms` are over by the monotonic clock, unless what is returned is called before. A plain timer may be early by all that
 * its turn of the event loop took before it was set.
 */
export function notBefore(ms: number, call: () => void): () => void {
  const due = performance.now() + ms;
  let timer: NodeJS.Timeout | undefined;
  const look = () => {
    const leftMs = due - performance.now();
    if (leftMs <= 0) call();
    else timer = setTimeout(look, Math.ceil(leftMs)).unref();
  };
  look();
  return () => clearTimeout(timer);
}
