/**
 * What platforms that share endpoints ask each other so that people see all of them, whichever they ask: of the endpoints that one has, of
 * what it has recorded, and of what is printed and happens there from now on.
 */
import type { EventTopic, PlatformEvent } from "../domain/platform-event.ts";
import type { EndpointHealth, EndpointSample, ScalingDecision, SeenWorker } from "../domain/worker.ts";
import type {
  ErrorGroup,
  Numbered,
  RecordedDecision,
  RecordedRequest,
  RecordFilter,
  RequestFilter,
} from "../history/record-store.ts";
import type { SeriesParts, SeriesQuestion } from "../history/series-store.ts";
import type { ChunkText, LogTimes, NewLines } from "../logs/log-store.ts";
import type { JobUpkeep, ScheduleBook } from "../queue/queue.ts";
import type { OwnerLink } from "./owner-link.ts";

/** How an endpoint fares where it is. */
export interface OwnLoad extends Pick<EndpointSample, "waitingRequests" | "running"> {
  /** Of requests. */
  readonly oldestWaitMs: number;
}

export interface WaitsForRoom {
  readonly endpointId: string;
  readonly missing: number;
  readonly reason: string;
}

/** Rows of one platform's file; numbers count in its home alone. */
export interface PageOfHome<R> {
  readonly home: string;
  readonly rows: readonly Numbered<R>[];
}

/** By home: the number that a page ends before. */
export type HomePage = Readonly<Record<string, number>>;

export interface FollowWish {
  readonly logsOf?: readonly string[];
  readonly topics?: readonly EventTopic[];
}

export interface News {
  readonly lines: readonly NewLines[];
  readonly events: readonly EventValue[];
  /** So many lines or events came faster than they were asked for. */
  readonly leftOut: number;
}

type SeriesEvent = Extract<PlatformEvent, { topic: "series" }>;
/** As JSON has it. */
export type EventValue =
  | Exclude<PlatformEvent, SeriesEvent>
  | (Omit<SeriesEvent, "endpoints"> & { readonly endpoints: readonly [string, Readonly<Record<string, number>>][] });

type Given<T> = T | Promise<T>;

interface ManagedQuestions extends Pick<JobUpkeep, "forget">, Pick<ScheduleBook, "setSchedule"> {
  health(endpointId: string): Given<EndpointHealth>;
  load(endpointId: string): Given<OwnLoad>;
  decisions(endpointId: string): Given<readonly ScalingDecision[]>;
  waitingForRoom(): Given<readonly WaitsForRoom[]>;
  /** Those that it runs. */
  seenWorkers(workerIds: readonly string[]): Given<Readonly<Record<string, SeenWorker>>>;
  /** Lines that are not in the bucket yet. */
  heldLines(endpointIds: readonly string[], between: LogTimes): Given<readonly ChunkText[]>;
  series(question: SeriesQuestion): Promise<SeriesParts>;
  routeMetrics(endpointId: string): Promise<readonly string[]>;
  requests(filter: RequestFilter, first: number, before: HomePage): Promise<PageOfHome<RecordedRequest>>;
  pastDecisions(filter: RecordFilter, first: number, before: HomePage): Promise<PageOfHome<RecordedDecision>>;
  errorGroups(filter: RecordFilter, first: number): Promise<readonly ErrorGroup[]>;
}

export interface Managed extends ManagedQuestions {
  /** What came since the follower asked before; the first time: nothing, from now on it follows. */
  news(follower: string, wish: FollowWish, signal?: AbortSignal): Promise<News>;
}

const QUESTIONS: Readonly<Record<keyof ManagedQuestions, true>> = {
  forget: true,
  setSchedule: true,
  health: true,
  load: true,
  decisions: true,
  waitingForRoom: true,
  seenWorkers: true,
  heldLines: true,
  series: true,
  routeMetrics: true,
  requests: true,
  pastDecisions: true,
  errorGroups: true,
};

export function isManagedQuestion(what: string): what is keyof ManagedQuestions {
  return Object.hasOwn(QUESTIONS, what);
}

/** Of the platform at the other end. */
export function managedOver(link: OwnerLink): Managed {
  const asked =
    (what: string) =>
    async (...given: readonly unknown[]) =>
      (await link.ask<{ answer?: unknown }>("managed", { what, given })).value.answer;
  const questions = Object.fromEntries(Object.keys(QUESTIONS).map((what) => [what, asked(what)]));
  return {
    ...(questions as unknown as ManagedQuestions),
    news: async (follower, wish, signal) => (await link.ask<News>("news", { follower, wish }, [], signal)).value,
  };
}
