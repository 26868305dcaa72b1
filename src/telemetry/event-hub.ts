import type { EventSource, PlatformEvent } from "../domain/platform-event.ts";

/** Passes on what happens. An event is made only when somebody follows. */
export class EventHub implements EventSource {
  readonly #followers = new Set<(event: PlatformEvent) => void>();

  tell(make: () => PlatformEvent): void {
    if (this.#followers.size === 0) return;
    const event = make();
    for (const follower of this.#followers) follower(event);
  }

  follow(listener: (event: PlatformEvent) => void): () => void {
    this.#followers.add(listener);
    return () => this.#followers.delete(listener);
  }
}
