/**
 * What is printed and happens at one platform, for those who follow it at another:
 *
 *   follower ──news──▶ waits until there is something ──▶ what came since it asked before ──▶ taken ──news──▶ …
 *
 * It asks again when whom it is for has taken all. Meanwhile a bounded part is held here, the rest is counted.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import {
  EVENT_JOBS_PER_S,
  LOG_FOLLOWER_MAX_BYTES,
  NEWS_AGAIN_MS,
  NEWS_FOLLOWERS_MAX,
  NEWS_FORGET_MS,
  NEWS_HOLD_MS,
} from "../domain/limits.ts";
import type { EventSource, PlatformEvent } from "../domain/platform-event.ts";
import type { EventValue, FollowWish, Managed, News } from "../gateway-link/managed.ts";
import type { LogReader, NewLines } from "../logs/log-store.ts";
import type { AskedPlatforms } from "./asked-platforms.ts";

interface FollowedNeeds {
  readonly logs: LogReader;
  readonly events: EventSource;
}

/** Those who follow from elsewhere. */
export class Followed {
  readonly #needs: FollowedNeeds;
  readonly #followers = new Map<string, Follower>();

  constructor(needs: FollowedNeeds) {
    this.#needs = needs;
  }

  /** Throws RATE_LIMITED. `signal`: it follows no more. */
  async news(id: string, wish: FollowWish, signal?: AbortSignal): Promise<News> {
    const follower = this.#followers.get(id) ?? this.#begin(id, wish);
    return follower.next(signal);
  }

  #begin(id: string, wish: FollowWish): Follower {
    if (this.#followers.size >= NEWS_FOLLOWERS_MAX) {
      throw new SvcError("RATE_LIMITED", `${NEWS_FOLLOWERS_MAX} at other platforms follow what happens here already.`);
    }
    const follower = new Follower(this.#needs, wish, () => this.#followers.delete(id));
    this.#followers.set(id, follower);
    return follower;
  }
}

class Follower {
  readonly #stops: (() => void)[] = [];
  readonly #over: () => void;
  #lines: NewLines[] = [];
  #events: EventValue[] = [];
  #held = 0;
  #leftOut = 0;
  #jobs = { since: 0, told: 0 };
  #wake: () => void = () => {};
  #forget: NodeJS.Timeout | undefined;

  constructor({ logs, events }: FollowedNeeds, { logsOf = [], topics = [] }: FollowWish, over: () => void) {
    this.#over = over;
    if (logsOf.length > 0) this.#stops.push(logs.follow(logsOf, (news) => this.#printed(news)));
    if (topics.length > 0) this.#stops.push(events.follow((event) => this.#happened(event), new Set(topics)));
  }

  async next(signal: AbortSignal | undefined): Promise<News> {
    clearTimeout(this.#forget);
    const isWaiting = Promise.withResolvers<void>();
    const late = setTimeout(isWaiting.resolve, NEWS_HOLD_MS);
    this.#wake = isWaiting.resolve;
    if (this.#held > 0 || this.#leftOut > 0) isWaiting.resolve();
    signal?.addEventListener("abort", isWaiting.resolve as () => void, { once: true });
    await isWaiting.promise;
    clearTimeout(late);
    if (signal?.aborted) this.#end();
    else this.#forget = setTimeout(() => this.#end(), NEWS_FORGET_MS);
    const news = { lines: this.#lines, events: this.#events, leftOut: this.#leftOut };
    this.#lines = [];
    this.#events = [];
    this.#held = 0;
    this.#leftOut = 0;
    return news;
  }

  #printed(news: NewLines): undefined {
    const bytes = news.lines.reduce((sum, line) => sum + line.length, 0);
    if (this.#mayHold(bytes)) this.#lines.push(news);
    else this.#leftOut += news.lines.length;
    this.#wake();
  }

  #happened(event: PlatformEvent): void {
    if (event.topic === "jobs" && !this.#mayTellJob()) return;
    const value = event.topic === "series" ? { ...event, endpoints: [...event.endpoints] } : event;
    // What is held is bounded as it is sent.
    if (this.#mayHold(JSON.stringify(value).length)) this.#events.push(value);
    else this.#leftOut++;
    this.#wake();
  }

  #mayHold(bytes: number): boolean {
    if (this.#held > 0 && this.#held + bytes > LOG_FOLLOWER_MAX_BYTES) return false;
    this.#held += bytes;
    return true;
  }

  /** As whoever follows would be told at most. */
  #mayTellJob(): boolean {
    const now = performance.now();
    if (now - this.#jobs.since >= 1_000) this.#jobs = { since: now, told: 0 };
    if (++this.#jobs.told <= EVENT_JOBS_PER_S) return true;
    this.#leftOut++;
    return false;
  }

  #end(): void {
    clearTimeout(this.#forget);
    for (const stop of this.#stops.splice(0)) stop();
    this.#over();
  }
}

/** `got` is told what came; the next is asked for when it resolves. Until the returned function is called, also of platforms that come. */
export function followOthers(
  asked: AskedPlatforms,
  wish: FollowWish,
  got: (news: News) => Promise<void> | undefined,
): () => void {
  const over = new AbortController();
  const { signal } = over;
  const followed = new Set<Managed>();
  const follow = async (managed: Managed) => {
    const follower = randomUUID();
    while (!signal.aborted && asked.others().includes(managed)) {
      try {
        const news = await managed.news(follower, wish, signal);
        if (!signal.aborted) await got(news);
      } catch {
        // Its link has ended, or it has too many who follow.
        await pause(NEWS_AGAIN_MS, undefined, { signal, ref: false }).catch(() => {});
      }
    }
    followed.delete(managed);
  };
  const look = () => {
    for (const managed of asked.others()) {
      if (followed.has(managed)) continue;
      followed.add(managed);
      asked.own("following another platform", follow(managed));
    }
  };
  const stopWatching = asked.watch(look);
  look();
  return () => {
    stopWatching();
    over.abort();
  };
}

/** What happens at all of them. A step of the series comes once from each. */
export function sharedEvents(asked: AskedPlatforms, events: EventSource): EventSource {
  return {
    follow(listener, topics, leftOut) {
      const stopHere = events.follow(listener, topics);
      const stopOthers = followOthers(asked, { topics: [...topics] }, (news) => {
        for (const event of news.events)
          listener(event.topic === "series" ? { ...event, endpoints: new Map(event.endpoints) } : event);
        if (news.leftOut > 0) leftOut?.(news.leftOut);
        return undefined;
      });
      return () => {
        stopHere();
        stopOthers();
      };
    },
  };
}
