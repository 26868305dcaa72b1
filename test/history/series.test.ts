import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SQLInputValue } from "node:sqlite";
import { test } from "node:test";
import {
  HISTORY_PENDING_MAX,
  HISTORY_ROWS_AT_ONCE,
  SERIES_POINTS_MAX,
  SERIES_STEP_MS,
  SERIES_STEPS_KEPT,
} from "../../src/domain/limits.ts";
import { LogHistogram, quantileMs } from "../../src/domain/log-histogram.ts";
import { metricOf, type Recorded } from "../../src/domain/series.ts";
import { type HistoryDatabase, openHistory } from "../../src/history/history-database.ts";
import type { RecordedEndpoint } from "../../src/history/series-store.ts";
import { SqliteSeries } from "../../src/history/sqlite-series.ts";
import { damage } from "../damage.ts";

const START = Date.UTC(2026, 0, 1);
const MACHINE: Recorded = { numbers: { "machine.vcpuUsed": 1 }, histograms: {} };
const jobs = (done: number, waiting = 0, environmentId: string | null = "environment"): RecordedEndpoint => ({
  environmentId,
  numbers: { done, waiting },
  histograms: {},
});

interface Under {
  readonly file: string;
  readonly told: string[];
  history: HistoryDatabase;
  series: SqliteSeries;
  /** Closes the file and opens it again. */
  reopen(): Promise<void>;
  steps(count: number, of: (step: number) => [string, RecordedEndpoint][], from?: number): Promise<void>;
  read(
    metric: string,
    from: number,
    to: number,
    stepMs?: number,
    ids?: readonly string[] | "all",
  ): Promise<(number | null)[]>;
}

function open(t: { after(work: () => unknown): void }, maxBytes?: number): Under {
  const dir = mkdtempSync(join(tmpdir(), "svc-series-"));
  const file = join(dir, "history.db");
  const told: string[] = [];
  const say = (line: string) => void told.push(line);
  const log = { info: say, error: say };
  const history = openHistory(file, log, (history) => history);
  const under: Under = {
    file,
    told,
    history,
    series: new SqliteSeries(history, maxBytes),
    async reopen() {
      await under.history.close();
      under.history = openHistory(file, log, (history) => history);
      under.series = new SqliteSeries(under.history, maxBytes);
    },
    async steps(count, of, from = START) {
      for (let step = 0; step < count; step++) {
        under.series.record(from + step * SERIES_STEP_MS, new Map(of(step)), MACHINE);
        if (step % 500 === 499) await under.history.flush();
      }
      await under.history.flush();
    },
    async read(name, from, to, stepMs = SERIES_STEP_MS, ids = name.startsWith("machine.") ? [] : ["a"]) {
      const { points } = await under.series.read({ metric: metricOf(name)!, ids, from, to, stepMs });
      return points.map(({ value }) => value);
    },
  };
  t.after(async () => {
    await under.history.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return under;
}

test("Steps come back as they were recorded: 0 where an endpoint was at rest, nothing where nothing was recorded", async (t) => {
  const under = open(t);
  await under.steps(3, (step) =>
    step === 1
      ? []
      : [
          ["a", jobs(step + 1, 4)],
          ["b", jobs(10)],
        ],
  );
  const to = START + 5 * SERIES_STEP_MS;
  assert.deepEqual(await under.read("done", START, to), [1, 0, 3, null, null]);
  assert.deepEqual(await under.read("waiting", START, to), [4, 0, 4, null, null]);
  assert.deepEqual(await under.read("done", START, to, SERIES_STEP_MS, "all"), [11, 0, 13, null, null]);
  assert.deepEqual(await under.read("done", START, to, SERIES_STEP_MS, ["a", "b", "unknown"]), [11, 0, 13, null, null]);
  assert.deepEqual(await under.read("machine.vcpuUsed", START, to), [1, 1, 1, null, null]);
  assert.deepEqual(await under.read("runMs.p95", START, to), [null, null, null, null, null]);
});

test("What an environment's endpoints do is summed as it is recorded, and stays when one of them goes", async (t) => {
  const under = open(t);
  const histogram = new LogHistogram();
  histogram.add(100);
  const slow: RecordedEndpoint = { ...jobs(1, 0, "one"), histograms: { runMs: histogram.sparse() } };
  await under.steps(90, () => [
    ["a", jobs(1, 2, "one")],
    ["b", slow],
    ["c", jobs(5, 1, "other")],
    ["d", jobs(7, 1, null)],
  ]);
  await under.series.forget("a");
  await under.history.flush();
  for (const [stepMs, steps] of [
    [SERIES_STEP_MS, 1],
    [60_000, 6],
    [900_000, 90],
  ] as const) {
    const of = async (name: string, ...ids: string[]) => {
      const to = START + stepMs;
      return (await under.read(name, START, to, stepMs, ids))[0];
    };
    assert.equal(await of("done", "one"), 2 * steps);
    assert.equal(await of("done", "other"), 5 * steps);
    assert.equal(await of("done", "one", "other"), 7 * steps);
    assert.equal(await of("waiting", "one"), 2);
    assert.ok(Math.abs((await of("runMs.p50", "one"))! - 100) < 10);
  }
  const all = await under.read("done", START, START + 900_000, 900_000, "all");
  assert.deepEqual(all, [14 * 90]);
  await under.series.forget("one");
  await under.history.flush();
  assert.deepEqual(await under.read("done", START, START + 900_000, 900_000, ["one"]), [0]);
});

test("Twelve questions about an environment read the rows of its sum, however many endpoints it has, a bounded number at once", async (t) => {
  const under = open(t);
  const names = ["done", "failed", "waiting", "running", "coldStarts", "oldestWaitMs"];
  const durations = ["waitMs.p50", "waitMs.p95", "runMs.p50", "runMs.p95", "bootMs.p50", "importMs.p50"];
  await under.steps(120, () => Array.from({ length: 40 }, (_, n) => [`e${n}`, jobs(1, 1)]));
  await under.reopen();
  let rows = 0;
  let most = 0;
  const { prepare } = under.history.connection;
  under.history.connection.prepare = (text) => {
    const statement = prepare.call(under.history.connection, text);
    const { all } = statement;
    const counted = (...values: SQLInputValue[]) => {
      const found = all.apply(statement, values as never);
      rows += found.length;
      most = Math.max(most, found.length);
      return found;
    };
    statement.all = counted as typeof all;
    return statement;
  };
  under.series = new SqliteSeries(under.history);
  rows = 0;
  const ask = (name: string) => under.read(name, START, START + 1_200_000, 30_000, ["environment"]);
  const [done] = await Promise.all([...names, ...durations].map(ask));
  assert.deepEqual(done, Array(40).fill(120));
  assert.ok(rows < 3 * 120, `${rows} rows: those of the sum and of the machine, once`);
  assert.ok(most <= HISTORY_ROWS_AT_ONCE, `${most} rows at once`);
});

test("Steps add up to minutes and quarters: counts are summed, gauges averaged, peaks kept, durations merged", async (t) => {
  const under = open(t);
  const histogram = new LogHistogram();
  for (const ms of [10, 10, 10, 1000]) histogram.add(ms);
  const recorded: RecordedEndpoint = {
    environmentId: null,
    numbers: { done: 2, waiting: 3, oldestWaitMs: 50 },
    histograms: { runMs: histogram.sparse() },
  };
  // Half of the steps: the mean of a gauge counts those at which it was 0.
  await under.steps(6 * 31, (step) => (step % 2 === 0 ? [["a", recorded]] : []));
  for (const stepMs of [60_000, 900_000]) {
    const minutes = stepMs / 60_000;
    const [done] = await under.read("done", START, START + stepMs, stepMs);
    assert.equal(done, 6 * minutes);
    assert.deepEqual(await under.read("waiting", START, START + stepMs, stepMs), [1.5]);
    assert.deepEqual(await under.read("oldestWaitMs", START, START + stepMs, stepMs), [50]);
    const [p50, p95] = [
      await under.read("runMs.p50", START, START + stepMs, stepMs),
      await under.read("runMs.p95", START, START + stepMs, stepMs),
    ];
    assert.ok(Math.abs(p50[0]! - 10) < 1 && Math.abs(p95[0]! - 1000) < 95, `${p50} ${p95}`);
  }
  // What is not added up yet is in the answer too.
  const all = await under.read("done", START, START + 3 * 900_000, 900_000);
  assert.deepEqual(all, [90, 90, 6]);
});

test("What was added up once is not added up again after a restart, and what was not yet is", async (t) => {
  const under = open(t);
  await under.steps(8, () => [["a", jobs(1)]]);
  await under.reopen();
  await under.steps(8, () => [["a", jobs(1)]], START + 8 * SERIES_STEP_MS);
  await under.reopen();
  assert.deepEqual(await under.read("done", START, START + 180_000, 60_000), [6, 6, 4]);
});

test("Each kind of step is kept for as long as it was promised, and longer ones reach further back", async (t) => {
  const under = open(t);
  const count = SERIES_STEPS_KEPT + 60;
  await under.steps(count, () => [["a", jobs(1)]]);
  const { n } = under.history.connection.prepare("SELECT count(*) AS n FROM series_steps WHERE tier = 0").get() as {
    n: number;
  };
  assert.equal(n, 4 * SERIES_STEPS_KEPT, "the endpoint, its environment, all and the machine");
  const to = START + count * SERIES_STEP_MS;
  const { stepMs, points } = await under.series.read({
    metric: metricOf("done")!,
    ids: ["a"],
    from: START,
    to,
    stepMs: SERIES_STEP_MS,
  });
  assert.equal(stepMs, 60_000);
  assert.equal(
    points.reduce((sum, { value }) => sum + (value ?? 0), 0),
    count,
  );
});

test("A platform that is younger than what is asked for shows its short steps, though longer ones seem to begin earlier", async (t) => {
  const under = open(t);
  const began = START + 14 * 60_000 + 2 * SERIES_STEP_MS;
  await under.steps(24, () => [["a", jobs(1)]], began);
  const to = began + 24 * SERIES_STEP_MS;
  const question = { metric: metricOf("done")!, ids: ["a"], from: to - 600_000, to, stepMs: SERIES_STEP_MS };
  const { stepMs, points } = await under.series.read(question);
  assert.equal(stepMs, SERIES_STEP_MS);
  assert.deepEqual(
    points.map(({ value }) => value),
    [...Array(36).fill(null), ...Array(24).fill(1)],
  );
});

test("A clock that is set, forward by years or back, costs nothing of what is kept", async (t) => {
  const under = open(t);
  await under.steps(12, () => [["a", jobs(1)]]);
  const year = 366 * 24 * 3_600_000;
  await under.steps(12, () => [["a", jobs(5)]], START + year);
  await under.steps(12, () => [["a", jobs(2)]], START + 60_000);
  assert.deepEqual(await under.read("done", START, START + 180_000, 60_000), [6, 6 + 12, 12]);
  // The same second twice: a gauge is still what it was.
  await under.steps(1, () => [["b", jobs(0, 4)]]);
  await under.steps(1, () => [["b", jobs(0, 4)]]);
  const waiting = await under.read("waiting", START, START + SERIES_STEP_MS, SERIES_STEP_MS, ["b"]);
  assert.ok(waiting[0]! > 0 && waiting[0]! <= 4);
});

test("What the series take on the disk is bounded: the oldest steps go before their time", async (t) => {
  const bytes = 1_000_000;
  const under = open(t, bytes);
  const wide = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`requests@GET /route-${i}`, 1000 + i]));
  await under.steps(2_000, (step) =>
    Array.from({ length: 5 }, (_, i): [string, RecordedEndpoint] => [
      `e${i}`,
      { environmentId: "environment", numbers: { ...wide, done: step + 1 }, histograms: {} },
    ]),
  );
  const used = under.history.connection
    .prepare(
      "SELECT (page_count - freelist_count) * page_size AS bytes FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    .get() as { bytes: number };
  assert.ok(used.bytes < bytes * 1.5, `${used.bytes} bytes`);
  const newest = await under.read(
    "done",
    START + 1_999 * SERIES_STEP_MS,
    START + 2_000 * SERIES_STEP_MS,
    SERIES_STEP_MS,
    ["e0"],
  );
  assert.deepEqual(newest, [2000]);
});

test("What is not always measured has no value where it was not, and its mean is of those steps at which it was", async (t) => {
  const under = open(t);
  const name = "machine.gpuUsed";
  const measured = { numbers: { [name]: 3, [`${name}.samples`]: 1 }, histograms: {} };
  for (let step = 0; step < 18; step++) {
    under.series.record(START + step * SERIES_STEP_MS, new Map(), step % 3 === 0 && step < 6 ? measured : MACHINE);
  }
  await under.history.flush();
  assert.deepEqual(await under.read(name, START, START + 40_000), [3, null, null, 3]);
  assert.deepEqual(await under.read(name, START, START + 180_000, 60_000), [3, null, null]);
});

test("A machine that joined has series of its own, beside those of all machines, with nothing where it was away; they go with it", async (t) => {
  const under = open(t);
  const used = (value: number) => ({ numbers: { "machine.vcpuUsed": value }, histograms: {} });
  for (let step = 0; step < 12; step++) {
    const hosts = new Map(step % 3 === 2 ? [] : [["h-1", used(2)]]);
    under.series.record(START + step * SERIES_STEP_MS, new Map(), used(5), hosts);
  }
  await under.history.flush();
  const read = (ids: string[], stepMs?: number) =>
    under.read("machine.vcpuUsed", START, START + 12 * SERIES_STEP_MS, stepMs ?? SERIES_STEP_MS, ids);
  assert.deepEqual((await read(["h-1"])).slice(0, 4), [2, 2, null, 2]);
  assert.deepEqual((await read([])).slice(0, 4), [5, 5, 5, 5]);
  assert.deepEqual(await read(["h-1"], 60_000), [2, 2], "the mean of when it was there");
  assert.deepEqual(await under.series.endpointIds(), ["h-1"]);
  await under.series.forget("h-1");
  await under.history.flush();
  assert.deepEqual((await read(["h-1"])).slice(0, 2), [null, null]);
});

test("An answer has a bounded number of points, whatever is asked for", async (t) => {
  const under = open(t);
  await under.steps(2, () => [["a", jobs(1)]]);
  const { points } = await under.series.read({
    metric: metricOf("done")!,
    ids: ["a"],
    from: 0,
    to: START + 60_000,
    stepMs: SERIES_STEP_MS,
  });
  assert.ok(points.length <= SERIES_POINTS_MAX + 1, String(points.length));
});

test("A removed endpoint leaves nothing of its own, also when its number is used again", async (t) => {
  const under = open(t);
  await under.steps(2, () => [["a", jobs(1)]]);
  await under.series.forget("a");
  await under.steps(1, () => [["c", jobs(7)]], START + 2 * SERIES_STEP_MS);
  assert.deepEqual(await under.series.endpointIds(), ["environment", "c"]);
  const to = START + 3 * SERIES_STEP_MS;
  assert.deepEqual(await under.read("done", START, to), [0, 0, 0]);
  assert.deepEqual(await under.read("done", START, to, SERIES_STEP_MS, ["c"]), [0, 0, 7]);
});

test("Writes that fail cost what they had, are told once, and go on when they can", async (t) => {
  const under = open(t);
  await under.steps(1, () => [["a", jobs(1)]]);
  const { connection } = under.history;
  // As a full disk answers: SQLITE_FULL.
  const { pages } = connection.prepare("SELECT page_count AS pages FROM pragma_page_count").get() as { pages: number };
  connection.exec(`PRAGMA max_page_count = ${pages}`);
  const large = Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`requests@GET /route-${i}`, 1]));
  await under.steps(
    3,
    () => [["new", { environmentId: null, numbers: large, histograms: {} }]],
    START + SERIES_STEP_MS,
  );
  await under.steps(
    3,
    () => [["new", { environmentId: null, numbers: large, histograms: {} }]],
    START + 4 * SERIES_STEP_MS,
  );
  assert.deepEqual(under.told, ["the history cannot be written: what happens now will be missing in it"]);
  connection.exec("PRAGMA max_page_count = 1073741823");
  await under.steps(1, () => [["new", jobs(3)]], START + 7 * SERIES_STEP_MS);
  assert.equal(under.told.at(-1), "the history is written again");
  const to = START + 8 * SERIES_STEP_MS;
  assert.deepEqual(await under.read("done", START, to), [1, null, null, null, null, null, null, 0]);
  assert.deepEqual(await under.read("done", START, to, SERIES_STEP_MS, ["new"]), [
    0,
    null,
    null,
    null,
    null,
    null,
    null,
    3,
  ]);
});

test("A damaged file is put aside and a new one begins; a path that cannot be opened costs the past alone", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-series-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const told: string[] = [];
  const say = (line: string) => void told.push(line);
  const log = { info: say, error: say };
  writeFileSync(join(dir, "damaged.db"), "this is no database".repeat(1000));
  mkdirSync(join(dir, "folder.db"));
  for (const name of ["damaged.db", "folder.db"]) {
    const history = openHistory(join(dir, name), log, (history) => history);
    const series = new SqliteSeries(history);
    series.record(START, new Map([["a", jobs(1)]]), MACHINE);
    await history.flush();
    const question = {
      metric: metricOf("done")!,
      ids: ["a"],
      from: START,
      to: START + SERIES_STEP_MS,
      stepMs: undefined,
    };
    assert.deepEqual((await series.read(question)).points, [{ at: START, value: 1 }]);
    await history.close();
  }
  assert.equal(told.length, 2);
  assert.match(told[0]!, /damaged/);
  assert.match(told[1]!, /in memory/);
});

test("A file that is damaged behind its first page is put aside when that is noticed: at once, or when the platform ends", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-series-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, "history.db");
  const told: string[] = [];
  const say = (line: string) => void told.push(line);
  const open = () =>
    openHistory(file, { info: say, error: say }, (history) => ({ history, series: new SqliteSeries(history) }));
  const record = async ({ history, series }: ReturnType<typeof open>) => {
    series.record(START, new Map([["a", jobs(1)]]), MACHINE);
    await history.flush();
  };
  const first = open();
  await record(first);
  await first.history.close();
  damage(file);
  const second = open();
  await record(second);
  assert.match(told.splice(0).join("\n"), /^the history's file was damaged and is put aside; a new one begins$/);
  rmSync(`${file}.damaged`);

  second.history.later(() => {
    throw Object.assign(new Error("database disk image is malformed"), { errcode: 11 });
  });
  await second.history.flush();
  assert.match(told.splice(0).join("\n"), /cannot be written.*\n.*put aside when the platform ends/);
  assert.equal(existsSync(file), true);
  await second.history.close();
  assert.deepEqual([existsSync(file), existsSync(`${file}.damaged`)], [false, true]);
  const third = open();
  await record(third);
  await third.history.close();
  assert.deepEqual(told, []);
});

test("What waits to be written is bounded, and a change that throws takes no other along", async (t) => {
  const under = open(t);
  let ran = 0;
  for (let n = 0; n < HISTORY_PENDING_MAX + 5; n++) {
    under.history.later(() => {
      ran++;
      if (n === HISTORY_PENDING_MAX) throw new Error("a defect");
    });
  }
  await under.history.flush();
  assert.equal(ran, HISTORY_PENDING_MAX);
  assert.deepEqual(under.told, ["a part of the history was left out"]);
});

test("A duration is read to 10 %, from the shortest to days; a negative one counts as none", () => {
  for (const ms of [0.3, 1, 7, 99, 1234, 60_000, 86_400_000]) {
    const histogram = new LogHistogram();
    histogram.add(ms);
    const read = quantileMs(histogram.sparse(), 0.5)!;
    assert.ok(Math.abs(read - ms) / ms < 0.1, `${ms}: ${read}`);
  }
  const odd = new LogHistogram();
  for (const ms of [-5, Number.NaN, 0, Number.POSITIVE_INFINITY]) odd.add(ms);
  assert.equal(odd.total, 4);
  assert.equal(quantileMs(odd.sparse(), 0.5), 0);
  assert.equal(quantileMs([], 0.5), undefined);
});
