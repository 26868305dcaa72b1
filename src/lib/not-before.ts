/** Calls `call` when `ms` are over by the monotonic clock. A plain timer may be early by all that its turn of the event loop took before it was set. */
export function notBefore(ms: number, call: () => void): void {
  const due = performance.now() + ms;
  const look = () => {
    const leftMs = due - performance.now();
    if (leftMs <= 0) call();
    else setTimeout(look, Math.ceil(leftMs)).unref();
  };
  look();
}
