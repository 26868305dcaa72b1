import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { errorKind } from "../../src/domain/error-kind.ts";
import {
  DECISIONS_PER_ENDPOINT_MAX,
  ERROR_KINDS_PER_ENDPOINT_MAX,
  ERRORS_KEPT_MS,
  REQUESTS_KEPT_MAX,
  REQUESTS_PER_WRITE_MAX,
} from "../../src/domain/limits.ts";
import { openHistory } from "../../src/history/history-database.ts";
import type { RecordedRequest } from "../../src/history/record-store.ts";
import { SqliteRecords } from "../../src/history/sqlite-records.ts";

function open(t: { after(work: () => unknown): void }) {
  const dir = mkdtempSync(join(tmpdir(), "svc-records-"));
  const file = join(dir, "history.db");
  const told: string[] = [];
  const say = (line: string) => void told.push(line);
  const make = () => {
    const history = openHistory(file, { info: say, error: say }, (history) => history);
    return { history, records: new SqliteRecords(history) };
  };
  const under = {
    ...make(),
    told,
    async reopen() {
      await under.history.close();
      Object.assign(under, make());
    },
  };
  t.after(async () => {
    await under.history.close();
    rmSync(dir, { recursive: true });
  });
  return under;
}

function request(changes: Partial<RecordedRequest> = {}): RecordedRequest {
  const made = { endpointId: "a", id: "1", method: "GET", route: "GET /", path: "/", status: 200, at: 1, totalMs: 1 };
  return { ...made, waitMs: null, runMs: null, workerId: null, coldStart: null, ...changes };
}

const decision = { at: 1, start: 1, stop: 0, reason: "1 waiting", times: 1 };
const mine = { endpointIds: ["a"] };

test("decisions, requests and errors are there after the file was closed, and repeats go on being counted", async (t) => {
  const under = open(t);
  under.records.decided("a", decision);
  under.records.decided("b", { ...decision, reason: "other" });
  under.records.requestEnded(request({ id: "' OR 1=1 --", path: "x".repeat(10_000) }));
  under.records.failed({ endpointId: "a", at: 1, jobId: "j", kind: async () => errorKind("a", "worker lost: code 7") });
  await under.reopen();
  assert.deepEqual(under.records.recentDecisions("a", 5), [decision]);
  under.records.decided("a", { ...decision, at: 9, times: 2 });
  assert.deepEqual(await under.records.decisions(mine, 10), [{ ...decision, n: 1, endpointId: "a", at: 9, times: 2 }]);
  const [found] = await under.records.requests({ ...mine, idStart: "' OR 1=1" }, 10);
  assert.deepEqual([found!.id, found!.path.length], ["' OR 1=1 --", 300]);
  under.records.failed({ endpointId: "a", at: 2, jobId: "k", kind: () => errorKind("a", "worker lost: code 9") });
  under.records.failed({ endpointId: "a", at: 2, jobId: "gone", kind: () => undefined });
  const [group, ...none] = await under.records.errorGroups(mine, 10);
  assert.deepEqual([group!.type, group!.count, group!.lastJobId, none], ["worker lost", 2, "k", []]);
  assert.deepEqual((await under.records.endpointIds()).sort(), ["a", "b"]);
  await under.records.forget("a");
  await under.history.flush();
  assert.deepEqual(await under.records.endpointIds(), ["b"]);
  assert.deepEqual([await under.records.errorGroups(mine, 10), await under.records.requests(mine, 10)], [[], []]);
});

test("everything has a bound: floods of requests, decisions and kinds of errors push out the oldest", async (t) => {
  const { records, history } = open(t);
  for (let n = 0; n < 3 * REQUESTS_PER_WRITE_MAX; n++) records.requestEnded(request());
  for (let n = 0; n < 3 * REQUESTS_PER_WRITE_MAX; n++) records.requestEnded(request({ status: 500 }));
  await history.flush();
  const counts = async (status: string) => (await records.requests({ ...mine, status }, 10_000)).length;
  assert.deepEqual([await counts("2xx"), await counts("5xx")], [REQUESTS_PER_WRITE_MAX, REQUESTS_PER_WRITE_MAX]);
  history.connection.exec(`UPDATE sqlite_sequence SET seq = ${REQUESTS_KEPT_MAX + 500} WHERE name = 'requests'`);
  records.requestEnded(request({ id: "last" }));
  const left = await records.requests(mine, 10_000);
  assert.deepEqual([left.length, left[0]!.id], [2 * REQUESTS_PER_WRITE_MAX + 1 - 501, "last"]);

  for (let n = 0; n < DECISIONS_PER_ENDPOINT_MAX + 3_000; n++) records.decided("a", { ...decision, reason: `${n}` });
  assert.equal((await records.decisions(mine, 100_000)).length, DECISIONS_PER_ENDPOINT_MAX);
  const name = (n: number) => `Error${String.fromCharCode(97 + (n % 26), 97 + Math.floor(n / 26))}`;
  const kinds = ERROR_KINDS_PER_ENDPOINT_MAX + 20;
  const fail = (n: number, at: number) =>
    records.failed({ endpointId: "a", at, jobId: null, kind: () => errorKind("a", `${name(n)}: x`) });
  for (let n = 0; n < kinds; n++) fail(n, n);
  const groups = await records.errorGroups(mine, 1_000);
  assert.deepEqual([groups.length, groups[0]!.type], [ERROR_KINDS_PER_ENDPOINT_MAX, name(kinds - 1)]);
  fail(0, ERRORS_KEPT_MS + 2 * 3_600_000);
  assert.deepEqual(
    (await records.errorGroups(mine, 1_000)).map(({ type }) => type),
    [name(0)],
  );
});

test("a full disk costs what happens then, is said once, and what comes after it is recorded again", async (t) => {
  const { records, history, told } = open(t);
  records.requestEnded(request({ id: "before" }));
  await history.flush();
  const { page_count: pages } = history.connection.prepare("PRAGMA page_count").get() as { page_count: number };
  history.connection.exec(`PRAGMA max_page_count = ${pages}`);
  const happens = async (id: string) => {
    for (let n = 0; n < 200; n++) records.requestEnded(request({ id, path: "x".repeat(300) }));
    records.decided("a", { ...decision, reason: id });
    records.failed({ endpointId: "a", at: 1, jobId: id, kind: () => errorKind("a", id) });
    await history.flush();
  };
  for (let n = 0; n < 3; n++) await happens("lost");
  assert.equal(told.length, 1, told.join("; "));
  history.connection.exec("PRAGMA max_page_count = 100000");
  await happens("after");
  const ids = new Set((await records.requests(mine, 1_000)).map(({ id }) => id));
  assert.deepEqual([...ids], ["after", "before"]);
  assert.deepEqual(
    (await records.decisions(mine, 10)).map(({ reason }) => reason),
    ["after"],
  );
  assert.deepEqual(
    (await records.errorGroups(mine, 10)).map(({ lastJobId }) => lastJobId),
    ["after"],
  );
});

test("pages stay as they are while others come", async (t) => {
  const { records } = open(t);
  for (let n = 1; n <= 30; n++) records.requestEnded(request({ id: `${n}` }));
  const seen: string[] = [];
  let before: number | undefined;
  for (;;) {
    const page = await records.requests(mine, 7, before);
    if (page.length === 0) break;
    seen.push(...page.map(({ id }) => id));
    before = page.at(-1)!.n;
    records.requestEnded(request({ id: "later" }));
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 30 }, (_, i) => `${30 - i}`),
  );
});
