import type { EventSource, EventTopic, PlatformEvent } from "../domain/platform-event.ts";

/** Passes on what happens. An event is made only when somebody follows. */
export class EventHub implements EventSource {
  readonly #followers = new Set<{
    readonly listener: (event: PlatformEvent) => void;
    readonly topics: ReadonlySet<EventTopic>;
  }>();

  tell(make: () => PlatformEvent): void {
    if (this.#followers.size === 0) return;
    const event = make();
    for (const { listener, topics } of this.#followers) if (topics.has(event.topic)) listener(event);
  }

  follow(listener: (event: PlatformEvent) => void, topics: ReadonlySet<EventTopic>): () => void {
    const entry = { listener, topics };
    this.#followers.add(entry);
    return () => this.#followers.delete(entry);
  }
}
