/** What the workers of live endpoints print, as it comes. */
import type { Platform } from "../client/answer-error.ts";
import { endpointLogs, type LogLine } from "../client/logs.ts";
import { SvcError } from "../domain/errors.ts";

/** A platform that does not open the log in time must not hold up calls. */
const OPEN_MAX_MS = 1_000;

export class LogFollow {
  readonly #show: (name: string, line: LogLine) => void;
  readonly #lost: () => void;
  readonly #followed = new Map<string, AbortController>();

  constructor(show: (name: string, line: LogLine) => void, lost: () => void) {
    this.#show = show;
    this.#lost = lost;
  }

  /** Resolves when nothing more can be missed. Once for each endpoint. */
  async follow(platform: Platform, endpointId: string, name: string): Promise<void> {
    if (this.#followed.has(endpointId)) return;
    const stop = new AbortController();
    this.#followed.set(endpointId, stop);
    let opened = () => {};
    const open = new Promise<void>((resolve) => {
      opened = resolve;
      setTimeout(resolve, OPEN_MAX_MS).unref();
    });
    void this.#read(platform, endpointId, name, stop.signal, opened).finally(opened);
    await open;
  }

  /** The endpoints are others now, or on another platform. */
  stopAll(): void {
    for (const stop of this.#followed.values()) stop.abort();
    this.#followed.clear();
  }

  async #read(platform: Platform, id: string, name: string, signal: AbortSignal, onOpen: () => void): Promise<void> {
    try {
      for await (const line of endpointLogs(platform, id, { tail: 0, follow: true, signal, onOpen })) {
        this.#show(name, line);
      }
    } catch (error) {
      // A key that may not read logs, say: calls go on without them.
      if (error instanceof SvcError && error.code !== "PLATFORM_UNREACHABLE") return;
    }
    if (signal.aborted) return;
    this.#followed.delete(id);
    this.#lost();
  }
}
