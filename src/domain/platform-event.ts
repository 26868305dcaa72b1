/** What followers of `GET /events` are told. docs/reference/metrics.md has the fields. */
export const EVENT_TOPICS = ["endpoints", "series", "decisions", "jobs"] as const;
export type EventTopic = (typeof EVENT_TOPICS)[number];

export type PlatformEvent =
  | {
      readonly topic: "endpoints" | "decisions" | "jobs";
      readonly endpointId: string;
      readonly data: Readonly<Record<string, unknown>>;
    }
  /** A step of all endpoints on which something happened. */
  | {
      readonly topic: "series";
      readonly at: number;
      readonly endpoints: ReadonlyMap<string, Readonly<Record<string, number>>>;
      readonly machine: Readonly<Record<string, number>>;
    };

/** Where events come from. */
export interface EventSource {
  /** Returns how to stop. `leftOut`: so many of other platforms came faster than they were passed on. */
  follow(
    listener: (event: PlatformEvent) => void,
    topics: ReadonlySet<EventTopic>,
    leftOut?: (count: number) => void,
  ): () => void;
}
