/** Two platforms that share the endpoints, under load, while what is between them, their database, a clock or one of them fails. */
import assert from "node:assert/strict";
import { after, before, describe, type TestContext, test } from "node:test";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { findPostgres } from "../postgres.ts";
import { type PostgresPair, startPostgresPair } from "../postgres-pair.ts";
import { tempDir } from "./platform.ts";
import {
  breath,
  type ReplicaServers,
  type Replicas,
  type Second,
  startReplicas,
  startServers,
  TcpWay,
} from "./replicas.ts";
import { settableClock, whyNoClock } from "./settable-clock.ts";
import { SHARES, shared } from "./sharing.ts";

const skip = (await lacksServers()) || (await whyNoClock());
const ENDPOINTS = 6;
const CALLERS = 4;
const HOUR_S = 3_600;
/** Jobs are looked at when a clock has been set. */
const KEPT = Object.fromEntries(
  ["RUN", "RUNSYNC", "RUNSYNC_WAIT"].map((of) => [`SVC_${of}_RETENTION_S`, String(10 * HOUR_S)]),
);

const WORKER = `
from svc import Endpoint

${Array.from(
  { length: ENDPOINTS },
  (_, n) => `
@Endpoint(name="double-${n}", workers=(0, 1), idle_timeout=600, max_concurrency=8)
def double_${n}(x):
    return 2 * x
`,
).join("")}
`;

interface Platform {
  readonly url: string;
}

/** Calls one after the other, of jobs that are waited for and jobs that are not, and what became of them. */
class Load {
  readonly #replicas: Replicas;
  readonly #paths: readonly string[];
  readonly #accepted = new Map<string, { readonly at: string; readonly x: number }>();
  readonly #callers: Promise<unknown>;
  /** Who is called. */
  at: readonly Platform[];
  /** Whether a call may be refused, with 503. */
  mayRefuse = false;
  answered = 0;
  refused = 0;
  longestMs = 0;
  #isOver = false;
  #open = new Map<number, Platform>();

  constructor(replicas: Replicas, paths: readonly string[], at: readonly Platform[]) {
    this.#replicas = replicas;
    this.#paths = paths;
    this.at = at;
    this.#callers = Promise.all(Array.from({ length: CALLERS }, (_, n) => this.#caller(n)));
    // It is awaited where the load is.
    this.#callers.catch(() => {
      this.#isOver = true;
    });
  }

  async #caller(n: number): Promise<void> {
    for (let i = 0; !this.#isOver; i++) {
      const x = n * 100_000 + i;
      const at = this.#paths[x % ENDPOINTS]!;
      const platform = this.at[i % this.at.length]!;
      const began = performance.now();
      this.#open.set(n, platform);
      const { status, json, text } = await this.#replicas.call(platform, `${at}/${n === 0 ? "run" : "runsync"}`, {
        body: { input: { x } },
      });
      this.#open.delete(n);
      this.longestMs = Math.max(this.longestMs, performance.now() - began);
      if (status === 503 && this.mayRefuse) {
        this.refused++;
        await breath();
        continue;
      }
      assert.equal(status, 200, text);
      // Whoever has waited for long is told how far it is: on a busy machine another server needs a minute for its place.
      const isOpen = n === 0 || json.status === "IN_QUEUE" || json.status === "IN_PROGRESS";
      if (!isOpen) assert.equal(json.output, 2 * x, text);
      this.#accepted.set(json.id, { at, x });
      this.answered++;
      await breath();
    }
  }

  async goesOnFor(calls: number): Promise<void> {
    const until = this.answered + calls;
    await this.meanwhile(() => assert.ok(this.answered > until, `${this.answered} of ${until} calls are answered`));
  }

  /** Until the check holds; a call that fails ends it. */
  async meanwhile(check: () => void): Promise<void> {
    await Promise.race([this.#callers, eventually(check, 120_000)]);
  }

  /** From now on others are called; resolves when no call waits for an answer elsewhere. */
  async moveTo(platforms: readonly Platform[]): Promise<void> {
    this.at = platforms;
    await this.meanwhile(() => assert.ok([...this.#open.values()].every((one) => platforms.includes(one))));
  }

  /** Ends it, and looks that all that was accepted has ended, each job once. */
  async check(t: TestContext, platform: Platform): Promise<void> {
    this.#isOver = true;
    await this.#callers;
    const { call } = this.#replicas;
    for (const [id, { at, x }] of this.#accepted) {
      await eventually(async () => {
        const { json, text } = await call(platform, `${at}/status/${id}`);
        assert.deepEqual([json.status, json.output], ["COMPLETED", 2 * x], text);
      });
    }
    let completed = 0;
    for (const at of this.#paths) completed += (await call(platform, `${at}/health`)).json.jobs.completed;
    const { size } = this.#accepted;
    const words = `${size} accepted, ${this.refused} refused, ${completed} completed, longest ${Math.round(this.longestMs)} ms`;
    t.diagnostic(words);
    // Whoever was refused does not know whether its job was stored.
    assert.ok(completed >= size && completed <= size + this.refused, words);
  }
}

const counted = ({ said }: Second, words: string) => said.filter((line) => line.includes(words)).length;

describe("two platforms that share the endpoints, under load", { skip }, () => {
  let servers: ReplicaServers;
  let pair: PostgresPair;

  before(async () => {
    servers = await startServers();
    pair = await startPostgresPair(((await findPostgres()) as { bin: string }).bin);
  });
  after(async () => {
    await pair?.stop();
    await servers?.stop();
  });

  test("no call fails, no job is lost and none ends twice while their links are slow, stand still or break, one stands still, or its clock is set", async (t) => {
    const [toFirst, toSecond] = [await TcpWay.open(t), await TcpWay.open(t)];
    const behind = (way: TcpWay) => ({
      SVC_REPLICA_LISTEN: `tls://127.0.0.1:${way.to}`,
      SVC_REPLICA_PUBLIC: `tls://127.0.0.1:${way.port}`,
    });
    const replicas = await startReplicas(t, servers, "shards_faults", { ...SHARES, ...KEPT, ...behind(toFirst) });
    const { first } = replicas;
    const clock = await settableClock(tempDir(t));
    const second = await replicas.another({ ...behind(toSecond), ...clock.env });
    const both = [first, second];
    const isShared = () => shared(first.dataDir, [first.url, second.url]);
    await isShared();
    const paths = Object.values(await replicas.deploy(WORKER));
    const load = new Load(replicas, paths, both);
    await load.goesOnFor(20);
    // The load may happen to ask each platform for its own endpoints alone.
    const areLinked = async () => {
      const asked = both.flatMap((platform) => paths.map((at) => replicas.call(platform, `${at}/health`)));
      for (const { status, text } of await Promise.all(asked)) assert.equal(status, 200, text);
    };

    for (const way of [toFirst, toSecond]) way.delay(200);
    await load.goesOnFor(20);
    for (const way of [toFirst, toSecond]) way.delay(0);

    const ended = (count: number) => () =>
      assert.ok(counted(second, "the link of another platform has ended") >= count, "its link has ended");
    for (const stalls of [
      () => toSecond.stall("there"),
      () => toSecond.stall("back"),
      () => [toFirst, toSecond].map((way) => [way.stall("there"), way.stall("back")]),
    ]) {
      const before = counted(second, "the link of another platform has ended");
      stalls();
      await load.meanwhile(ended(before + 1));
      for (const way of [toFirst, toSecond]) way.mend();
      await load.goesOnFor(20);
      await areLinked();
    }
    t.diagnostic(`${load.answered} calls with slow and stalled links, longest ${Math.round(load.longestMs)} ms`);

    const before = counted(second, "the link of another platform has ended");
    for (const way of [toFirst, toSecond]) way.cut();
    await load.meanwhile(ended(before + 1));
    for (const way of [toFirst, toSecond]) way.mend();
    await load.goesOnFor(20);
    await isShared();

    await load.moveTo([first]);
    process.kill(second.pid, "SIGSTOP");
    try {
      await load.goesOnFor(40);
    } finally {
      process.kill(second.pid, "SIGCONT");
    }
    await isShared();
    load.at = both;
    for (const seconds of [HOUR_S, -HOUR_S, 0]) {
      clock.set(seconds);
      await load.goesOnFor(20);
    }
    await isShared();
    await load.check(t, second);
  });

  test("what was accepted ends, once, when the database is away and when another server takes its place", async (t) => {
    const replicas = await startReplicas(t, servers, "shards_failover", {
      ...SHARES,
      ...KEPT,
      SVC_DATABASE_URL: pair.url,
    });
    const second = await replicas.another();
    const both = [replicas.first, second];
    const isShared = () => shared(second.dataDir, [replicas.first.url, second.url]);
    await isShared();
    const load = new Load(replicas, Object.values(await replicas.deploy(WORKER)), both);
    await load.goesOnFor(20);
    load.mayRefuse = true;
    await pair.primary.kill("SIGQUIT");
    await load.meanwhile(() => assert.ok(load.refused > CALLERS, "calls are refused while there is no database"));
    await pair.primary.start();
    await load.goesOnFor(40);
    await isShared();
    await pair.makeStandby();
    await load.goesOnFor(20);
    await pair.failOver();
    await load.goesOnFor(40);
    await isShared();
    await load.check(t, second);
  });
});
