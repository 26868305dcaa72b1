/**
 * What happens, as server-sent events: `GET /events?topics=endpoints,series,decisions,jobs`. A follower may be slow: what it does
 * not take in time is left out and counted, and it is told. Its key is looked at again now and then.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { boundTo, type Principal, reaches } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { EVENT_FOLLOWER_MAX_BYTES, EVENT_FOLLOWERS_MAX, EVENT_JOBS_PER_S } from "../domain/limits.ts";
import { EVENT_TOPICS, type EventTopic, type PlatformEvent } from "../domain/platform-event.ts";
import type { Endpoint } from "../store/store.ts";
import { authenticate, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";
import { endWithFollower } from "./follower.ts";
import { methodNotAllowed } from "./http.ts";

export class Events {
  readonly #deps: ControlPlaneDeps;
  #followers = 0;

  constructor(deps: ControlPlaneDeps) {
    this.#deps = deps;
  }

  async answer(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    if (request.method !== "GET") return methodNotAllowed(response, "/events", "GET");
    const principal = await this.#admit(request);
    const topics = topicsOf(url.searchParams.get("topics"));
    if (this.#followers >= EVENT_FOLLOWERS_MAX) {
      throw new SvcError("RATE_LIMITED", `${EVENT_FOLLOWERS_MAX} others follow the events already.`, {
        help: "Close one, or ask for `series` now and then.",
      });
    }
    if (this.#deps.closing.aborted || response.destroyed) return void response.destroy();
    response.writeHead(200, {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    response.flushHeaders();
    const { store, events, now } = this.#deps;
    const follower = new EventFollower(response, principal, (id) => store.endpoints.find(id), now);
    const leftOut = (count: number) => follower.leaveOut(count);
    const stop = events.follow((event) => follower.tell(event), topics, leftOut);
    this.#followers++;
    response.on("close", () => {
      stop();
      this.#followers--;
    });
    endWithFollower(request, response, this.#deps.closing, () => this.#look(request, response));
  }

  async #admit(request: IncomingMessage): Promise<Principal> {
    const principal = await authenticate(this.#deps.keys, request.headers.authorization);
    requireScope({ principal }, "read");
    return principal;
  }

  /** A proxy between must see life; a key may have been revoked, which rejects. */
  async #look(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#admit(request);
    if (response.writableLength === 0 && !response.writableEnded) response.write(": nothing more\n\n");
  }
}

/** Throws BAD_INPUT. Without a list all of them. */
function topicsOf(text: string | null): ReadonlySet<EventTopic> {
  if (text === null || text === "") return new Set(EVENT_TOPICS);
  const named = text.split(",").map((name) => name.trim());
  const unknown = named.find((name) => !EVENT_TOPICS.includes(name as EventTopic));
  if (unknown === undefined) return new Set(named as EventTopic[]);
  throw new SvcError("BAD_INPUT", `There is no topic ${JSON.stringify(unknown.slice(0, 80))}.`, {
    help: `The topics are ${EVENT_TOPICS.join(", ")}.`,
  });
}

export class EventFollower {
  readonly #response: ServerResponse;
  readonly #principal: Principal;
  readonly #find: (endpointId: string) => Promise<Endpoint | undefined>;
  readonly #now: () => number;
  /** Whether a bound key sees the endpoint, as far as that was looked up. */
  readonly #seen = new Map<string, boolean | Promise<boolean>>();
  #leftOut = 0;
  #jobsSince = 0;
  #jobs = 0;

  constructor(
    response: ServerResponse,
    principal: Principal,
    find: (endpointId: string) => Promise<Endpoint | undefined>,
    now: () => number,
  ) {
    this.#response = response;
    this.#principal = principal;
    this.#find = find;
    this.#now = now;
    response.on("drain", () => this.#tellLeftOut());
  }

  tell(event: PlatformEvent): void {
    if (event.topic === "series") {
      this.#tellStep(event).catch(() => this.#response.destroy());
      return;
    }
    if (event.topic === "jobs" && !this.#mayTellJob()) {
      this.#leftOut++;
      return;
    }
    const seen = this.#sees(event.endpointId);
    const data = { endpointId: event.endpointId, ...event.data };
    if (seen === true) this.#write(event.topic, data);
    else if (seen !== false) {
      seen.then((sees) => sees && this.#write(event.topic, data)).catch(() => this.#response.destroy());
    }
  }

  /** They did not come here. */
  leaveOut(count: number): void {
    this.#leftOut += count;
    this.#tellLeftOut();
  }

  async #tellStep({ at, endpoints, machine }: Extract<PlatformEvent, { topic: "series" }>): Promise<void> {
    const shown: Record<string, unknown> = {};
    for (const [id, values] of endpoints) if (await this.#sees(id)) shown[id] = values;
    const isBound = boundTo(this.#principal) !== undefined;
    this.#write("series", { at, endpoints: shown, ...(isBound ? {} : { machine }) });
  }

  #sees(endpointId: string): boolean | Promise<boolean> {
    if (boundTo(this.#principal) === undefined) return true;
    const known = this.#seen.get(endpointId);
    if (known !== undefined) return known;
    const looked = this.#find(endpointId).then((endpoint) => {
      const sees = endpoint !== undefined && reaches(this.#principal, endpoint);
      // Where an endpoint belongs never changes.
      this.#seen.set(endpointId, sees);
      return sees;
    });
    this.#seen.set(endpointId, looked);
    return looked;
  }

  /** A busy queue ends more jobs than anybody reads. */
  #mayTellJob(): boolean {
    const now = this.#now();
    if (now - this.#jobsSince >= 1_000) {
      this.#jobsSince = now;
      this.#jobs = 0;
      this.#tellLeftOut();
    }
    this.#jobs++;
    return this.#jobs <= EVENT_JOBS_PER_S;
  }

  #write(topic: string, data: object): void {
    const { writableLength, writableEnded, destroyed } = this.#response;
    if (writableLength >= EVENT_FOLLOWER_MAX_BYTES || writableEnded || destroyed) {
      this.#leftOut++;
      return;
    }
    this.#response.write(`event: ${topic}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #tellLeftOut(): void {
    if (this.#leftOut === 0 || this.#response.writableLength >= EVENT_FOLLOWER_MAX_BYTES) return;
    const count = this.#leftOut;
    this.#leftOut = 0;
    this.#write("left-out", { count });
  }
}
