/** All that a queue can be asked, in any order and at once. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { isMoved, SvcError } from "../../src/domain/errors.ts";
import { INLINE_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import type { ClaimedJob, JobQueue } from "../../src/queue/queue.ts";
import { newJob } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";

const ASKERS = 24;
const NEVER = "00000000";
/** What may rightly be said of any of them. */
const SAID = new Set(["MOVED", "SHUTTING_DOWN", "CONFLICT"]);
const SMALL = Buffer.from('{"ok":true}');
const LARGE = Buffer.from(JSON.stringify("x".repeat(INLINE_BODY_MAX_BYTES + 1)));

const chance = (of: number) => Math.random() < of;
const any = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const bytes = () => (chance(0.1) ? LARGE : SMALL);

type Ask = (queue: JobQueue, endpointId: string) => Promise<unknown>;

/** Everything that a queue can be asked, of jobs that were made by it. */
function everything(over: AbortSignal): Readonly<Record<string, Ask>> {
  const jobs = [NEVER];
  const claims: ClaimedJob[] = [];
  const again = { max: 2, delayMs: 10, backoff: 2, maxDelayMs: 1_000 };
  const ends: readonly ((queue: JobQueue, claim: ClaimedJob) => Promise<unknown>)[] = [
    (queue, claim) => queue.finish(claim, { state: "COMPLETED", output: bytes() }),
    (queue, claim) => queue.finish(claim, { state: "FAILED", error: "bad", again }),
    (queue, claim) => queue.finish(claim, { state: "FAILED", error: bytes().toString() }),
    (queue, claim) => queue.finish(claim, { state: "TIMED_OUT", error: "late" }),
    (queue, claim) => queue.release(claim, chance(0.5) ? "lost" : "handed-back"),
  ];
  const seldom =
    (ask: Ask): Ask =>
    async (queue, e) =>
      chance(0.1) ? ask(queue, e) : undefined;
  return {
    async enqueue(queue, e) {
      const job = newJob(e, {
        input: bytes(),
        idempotencyKey: chance(0.2) ? any(["one", "two", "three"]) : "",
        webhook: chance(0.2) ? "http://127.0.0.1:1/hook" : "",
        lowPriority: chance(0.2),
        isAwaited: chance(0.5),
        retentionMs: chance(0.2) ? 1 : 60_000,
        ttlMs: chance(0.1) ? 20 : 3_600_000,
      });
      jobs.push((await queue.enqueue(job)).id);
    },
    async claim(queue, e) {
      const signal = AbortSignal.any([over, AbortSignal.timeout(200)]);
      claims.push(...(await queue.claim(e, any(["w1", "w2", "w3"]), 3, signal)));
    },
    async finish(queue) {
      const claim = claims.splice(Math.floor(Math.random() * claims.length), 1)[0];
      if (claim === undefined) return;
      try {
        await any(ends)(queue, claim);
      } catch (error) {
        claims.push(claim);
        throw error;
      }
    },
    renew: (queue) => queue.renew(claims.slice(0, 20)),
    cancel: (queue) => queue.cancel(any(jobs)),
    retry: (queue) => queue.retry(any(jobs)),
    purge: seldom((queue, e) => queue.purge(e)),
    progress: async (queue) => claims.length > 0 && queue.progress(any(claims), bytes()),
    chunk: async (queue) => claims.length > 0 && queue.chunk(any(claims), bytes()),
    takeChunks: (queue) => queue.takeChunks(any(jobs), 20),
    readChunks: (queue) => queue.readChunks(any(jobs), 0, 20),
    wait: (queue) => queue.wait(any(jobs), 50),
    find: (queue) => queue.find(any(jobs)),
    findExpired: (queue) => queue.findExpired(any(jobs)),
    input: (queue) => queue.input(any(jobs)),
    list: (queue, e) => queue.list(e, { limit: 20, expired: chance(0.5) }),
    search: (queue) => queue.search({ limit: 20, ...(chance(0.5) && { error: (text) => text.includes("bad") }) }),
    counts: (queue, e) => queue.counts(e),
    failQueued: seldom((queue, e) => queue.failQueued(e, "w", "broken")),
    failAwaited: seldom((queue, e) => queue.failAwaited(e, "w", "broken")),
    sweep: (queue) => queue.sweep(),
    expireLeases: (queue) => queue.expireLeases(),
    wakeDelayed: (queue) => queue.wakeDelayed(),
    forget: seldom((queue, e) => queue.forget(e)),
    endpointIds: (queue) => queue.endpointIds(),
    scheduleOf: (queue, e) => queue.scheduleOf(e),
    setSchedule: (queue, e) => queue.setSchedule(e, { spec: "* * * * *", until: Date.now(), paused: false }),
    tick: (queue, e) => queue.tick(e, Date.now(), Date.now(), newJob(e)),
    async deliver(queue) {
      for (const { id } of await queue.dueDeliveries(5, chance(0.5) ? ["other:1"] : [])) {
        await queue.settleDelivery(id, chance(0.5) ? null : Date.now());
      }
    },
  };
}

export class Askers {
  readonly #over = new AbortController();
  readonly #done = new Map<string, number>();
  readonly #askers: Promise<unknown>;
  readonly #asked = new Map<number, string>();
  readonly #said: ReadonlySet<string>;
  /** What failed in a way that nothing may. */
  readonly wrong: unknown[] = [];

  /** `alive`: those that can be asked at the moment, one or two. `said`: codes that may be said, too. */
  constructor(alive: readonly JobQueue[], endpoints: readonly string[], said: readonly string[] = []) {
    this.#said = new Set([...SAID, ...said]);
    const asks = everything(this.#over.signal);
    const often = ["enqueue", "claim", "finish"].flatMap((name) => Array<string>(6).fill(name));
    const names = [...Object.keys(asks), ...often];
    const one = async (_: unknown, n: number) => {
      while (!this.#over.signal.aborted) {
        const name = any(names);
        this.#asked.set(n, name);
        const heard = await this.#ask(asks[name]!, name, alive, any(endpoints));
        this.#done.set(heard, (this.#done.get(heard) ?? 0) + 1);
        this.#asked.delete(n);
        await pause(1);
      }
    };
    this.#askers = Promise.all(Array.from({ length: ASKERS }, one));
  }

  /** Resolves how often what was done or said, when all that was asked is answered. */
  async end(): Promise<string> {
    this.#over.abort();
    await eventually(() => assert.deepEqual([...this.#asked.values()], [], "each is answered"));
    await this.#askers;
    return [...this.#done].map(([name, count]) => `${name} ${count}`).join(", ");
  }

  async #ask(ask: Ask, name: string, alive: readonly JobQueue[], endpointId: string): Promise<string> {
    const [queue, other] = chance(0.5) ? alive : alive.toReversed();
    try {
      // As a gateway asks: whoever has it is the next one.
      await ask(queue!, endpointId).catch((error) => {
        if (other === undefined || !isMoved(error)) throw error;
        return ask(other, endpointId);
      });
      return name;
    } catch (error) {
      const { code } = error as SvcError;
      if (!(error instanceof SvcError && this.#said.has(code))) this.wrong.push([name, error]);
      return code;
    }
  }
}
