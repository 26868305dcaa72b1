/** The session's platform: the one it started with, or the one that is there again after it was away. */
import type { ControlPlane } from "../client/control-plane.ts";
import { PLATFORM_RETRY_MS } from "../domain/limits.ts";

export interface PlatformWatchOptions {
  readonly controlPlane: ControlPlane;
  /** Looks for it, perhaps at another address; undefined while there is none. */
  readonly find: () => Promise<ControlPlane | undefined>;
  onLost(url: string): void;
  onBack(url: string): void;
}

export class PlatformWatch {
  readonly #options: PlatformWatchOptions;
  #controlPlane: ControlPlane;
  #timer: NodeJS.Timeout | undefined;
  #away = false;
  #closed = false;

  constructor(options: PlatformWatchOptions) {
    this.#options = options;
    this.#controlPlane = options.controlPlane;
  }

  get controlPlane(): ControlPlane {
    return this.#controlPlane;
  }

  /** It did not answer: it is looked for until it is back. */
  lost(): void {
    if (this.#away || this.#closed) return;
    this.#away = true;
    this.#options.onLost(this.#controlPlane.platform.url);
    this.#again();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #again(): void {
    if (!this.#closed) this.#timer = setTimeout(() => void this.#look(), PLATFORM_RETRY_MS);
  }

  async #look(): Promise<void> {
    const found = await this.#options.find().catch(() => undefined);
    const answers = await found?.account().then(
      () => true,
      () => false,
    );
    if (found === undefined || !answers || this.#closed) return this.#again();
    this.#controlPlane = found;
    this.#away = false;
    this.#options.onBack(found.platform.url);
  }
}
