const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export interface StopRequest {
  /** Resolves at the first signal. */
  readonly asked: Promise<void>;
  /** No longer listens. */
  forget(): void;
}

/** The first Ctrl+C asks to stop; `again` is called at the second. */
export function listenForStop(again: () => void): StopRequest {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  let stopping = false;
  const onSignal = () => {
    if (stopping) again();
    stopping = true;
    resolve();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    asked,
    forget: () => {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}
