/**
 * Records in the history's file. Each kind has a bound of rows; the oldest go first. What comes faster than it is worth keeping
 * is counted by the series all the same.
 */
import { setImmediate } from "node:timers/promises";
import {
  DECISIONS_KEPT_MAX,
  DECISIONS_PER_ENDPOINT_MAX,
  ERROR_KINDS_PER_ENDPOINT_MAX,
  ERRORS_KEPT_MS,
  FAILURES_PER_WRITE_MAX,
  RECORD_PATH_MAX_CHARS,
  RECORD_WINDOW_ROWS,
  RECORDS_TRIM_EVERY,
  REQUESTS_KEPT_MAX,
  REQUESTS_PER_WRITE_MAX,
} from "../domain/limits.ts";
import type { ScalingDecision } from "../domain/worker.ts";
import type { HistoryDatabase } from "./history-database.ts";
import type {
  ErrorGroup,
  Failure,
  Numbered,
  RecordedDecision,
  RecordedRequest,
  RecordFilter,
  RecordStore,
  RequestFilter,
} from "./record-store.ts";

const HOUR_MS = 3_600_000;
const SERVER_ERROR = 500;

export class SqliteRecords implements RecordStore {
  readonly #history: HistoryDatabase;
  readonly #sql: ReturnType<typeof statements>;
  #requests: RecordedRequest[] = [];
  /** Of those that wait: answered by an error. */
  #badRequests = 0;
  #failures: Failure[] = [];
  #decisions = new Map<string, ScalingDecision[]>();
  #sinceTrim = 0;

  constructor(history: HistoryDatabase) {
    this.#history = history;
    history.connection.exec(TABLES);
    this.#sql = statements(history);
    history.onUndone(() => this.#leaveOut());
  }

  /** What waited for a transaction that failed is not written any more: what comes next is handed in anew. */
  #leaveOut(): void {
    this.#requests = [];
    this.#badRequests = 0;
    this.#failures = [];
    this.#decisions = new Map();
  }

  takesRequest(status: number): boolean {
    // Errors have a room of their own: they are what is looked for.
    const waiting = status >= SERVER_ERROR ? this.#badRequests : this.#requests.length - this.#badRequests;
    return waiting < REQUESTS_PER_WRITE_MAX;
  }

  requestEnded(request: RecordedRequest): void {
    if (!this.takesRequest(request.status)) return;
    if (this.#requests.length === 0) this.#history.later(() => this.#writeRequests());
    if (request.status >= SERVER_ERROR) this.#badRequests++;
    this.#requests.push(request);
  }

  failed(failure: Failure): void {
    if (this.#failures.length >= FAILURES_PER_WRITE_MAX) return;
    if (this.#failures.length === 0) this.#history.later(() => this.#writeFailures());
    this.#failures.push(failure);
  }

  decided(endpointId: string, decision: ScalingDecision): void {
    if (this.#decisions.size === 0) this.#history.later(() => this.#writeDecisions());
    const waiting = this.#decisions.get(endpointId) ?? [];
    this.#decisions.set(endpointId, waiting);
    if (decision.times > 1 && waiting.length > 0) waiting.pop();
    waiting.push(decision);
    if (waiting.length > DECISIONS_PER_ENDPOINT_MAX) waiting.shift();
  }

  recentDecisions(endpointId: string, count: number): ScalingDecision[] {
    try {
      const rows = this.#sql.recent.all(endpointId, count) as unknown as ScalingDecision[];
      return rows.map((row) => ({ ...row })).reverse();
    } catch {
      // A damaged file: history begins anew.
      return [];
    }
  }

  async requests(filter: RequestFilter, first: number, before?: number): Promise<Numbered<RecordedRequest>[]> {
    await this.#history.flush();
    const { route = null, status = "", idStart = "" } = filter;
    const [low, high] = statuses(status);
    const rows = await this.#page(this.#sql.requests, this.#sql.lastRequest, filter, first, before, [
      route,
      low,
      high,
      idStart,
    ]);
    return (rows as unknown as (Numbered<RecordedRequest> & { coldStart: number | null })[]).map((row) => ({
      ...row,
      coldStart: row.coldStart === null ? null : Boolean(row.coldStart),
    }));
  }

  async decisions(filter: RecordFilter, first: number, before?: number): Promise<Numbered<RecordedDecision>[]> {
    await this.#history.flush();
    const rows = await this.#page(this.#sql.decisions, this.#sql.lastDecision, filter, first, before, []);
    return rows as unknown as Numbered<RecordedDecision>[];
  }

  async errorGroups({ endpointIds, from = 0, to }: RecordFilter, first: number): Promise<ErrorGroup[]> {
    await this.#history.flush();
    const until = to ?? Number.MAX_SAFE_INTEGER;
    return this.#sql.groups.all(
      JSON.stringify(endpointIds),
      hourOf(from),
      hourOf(until),
      first,
    ) as unknown as ErrorGroup[];
  }

  async endpointIds(): Promise<string[]> {
    return (this.#sql.endpoints.all() as { endpoint: string }[]).map(({ endpoint }) => endpoint);
  }

  async forget(endpointId: string): Promise<void> {
    this.#decisions.delete(endpointId);
    this.#history.later(() => {
      for (const forget of this.#sql.forget) forget.run(endpointId);
    });
  }

  /** Numbers have hardly a gap: a window of them is a window of rows, and the platform has its turn between two. */
  async #page(
    select: Statement,
    newest: Statement,
    { endpointIds, from = 0, to }: RecordFilter,
    first: number,
    before: number | undefined,
    more: readonly (string | number | null)[],
  ): Promise<Record<string, unknown>[]> {
    const found: Record<string, unknown>[] = [];
    const ids = JSON.stringify(endpointIds);
    const until = to ?? Number.MAX_SAFE_INTEGER;
    const { n: last } = newest.get() as { n: number | null };
    let below = Math.min(before ?? Number.MAX_SAFE_INTEGER, (last ?? 0) + 1);
    while (below > 1 && found.length < first) {
      const floor = Math.max(1, below - RECORD_WINDOW_ROWS);
      const rows = select.all(below, floor, ids, from, until, first - found.length, ...more);
      found.push(...rows.map((row) => ({ ...row })));
      below = floor;
      await setImmediate();
    }
    return found;
  }

  #writeRequests(): void {
    const requests = this.#requests;
    this.#requests = [];
    this.#badRequests = 0;
    for (const one of requests) {
      this.#sql.addRequest.run(
        one.endpointId,
        one.id,
        one.method,
        one.route,
        one.path.slice(0, RECORD_PATH_MAX_CHARS),
        one.status,
        one.at,
        one.waitMs,
        one.runMs,
        one.totalMs,
        one.workerId,
        one.coldStart === null ? null : Number(one.coldStart),
      );
    }
    this.#sql.trimRequests.run(REQUESTS_KEPT_MAX);
  }

  async #writeFailures(): Promise<void> {
    const failures = this.#failures;
    this.#failures = [];
    for (const { endpointId, at, jobId, kind: find } of failures) {
      const kind = await find();
      if (kind === undefined) continue;
      const { key, type, place, message } = kind;
      const isNew = this.#sql.addKind.run(key, endpointId, type, place, message, jobId, at).changes > 0;
      if (isNew) this.#sql.trimKinds.run(endpointId, ERROR_KINDS_PER_ENDPOINT_MAX);
      else this.#sql.changeKind.run(message, jobId, at, key);
      this.#sql.count.run(key, hourOf(at), at, at);
    }
    const oldest = (failures.at(-1)?.at ?? 0) - ERRORS_KEPT_MS;
    this.#sql.trimCounts.run(hourOf(oldest));
    this.#sql.trimOldKinds.run(oldest);
  }

  #writeDecisions(): void {
    const waiting = this.#decisions;
    this.#decisions = new Map();
    for (const [endpointId, decisions] of waiting) {
      for (const { at, start, stop, reason, times } of decisions) {
        const again = times > 1 && this.#sql.repeat.run(at, times, endpointId, start, stop, reason).changes > 0;
        if (!again) this.#sql.addDecision.run(endpointId, at, start, stop, reason, times);
        this.#sinceTrim++;
      }
    }
    if (this.#sinceTrim < RECORDS_TRIM_EVERY) return;
    this.#sinceTrim = 0;
    this.#sql.trimDecisions.run(DECISIONS_KEPT_MAX);
    for (const endpointId of waiting.keys()) {
      this.#sql.trimDecisionsOf.run(endpointId, endpointId, DECISIONS_PER_ENDPOINT_MAX);
    }
  }
}

type Statement = ReturnType<HistoryDatabase["connection"]["prepare"]>;

function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS);
}

/** The statuses that "4xx" or "404" means, from and to. */
function statuses(text: string): [number, number] {
  const low = Number(text.toLowerCase().replaceAll("x", "0"));
  return text === "" ? [0, 999] : [low, low + 10 ** (text.toLowerCase().split("x").length - 1) - 1];
}

const TABLES = `
  CREATE TABLE IF NOT EXISTS requests (
    n INTEGER PRIMARY KEY AUTOINCREMENT, endpoint TEXT NOT NULL, id TEXT NOT NULL, method TEXT NOT NULL, route TEXT NOT NULL,
    path TEXT NOT NULL, status INTEGER NOT NULL, at INTEGER NOT NULL, wait_ms REAL, run_ms REAL, total_ms REAL NOT NULL,
    worker TEXT, cold INTEGER
  );
  CREATE TABLE IF NOT EXISTS decisions (
    n INTEGER PRIMARY KEY AUTOINCREMENT, endpoint TEXT NOT NULL, at INTEGER NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, reason TEXT NOT NULL, times INTEGER NOT NULL
  );
  CREATE INDEX IF NOT EXISTS decisions_by_endpoint ON decisions (endpoint, n);
  CREATE TABLE IF NOT EXISTS error_kinds (
    key TEXT PRIMARY KEY, endpoint TEXT NOT NULL, type TEXT NOT NULL, place TEXT NOT NULL, message TEXT NOT NULL,
    last_job TEXT, last_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS error_kinds_by_endpoint ON error_kinds (endpoint, last_at);
  CREATE TABLE IF NOT EXISTS error_counts (
    key TEXT NOT NULL REFERENCES error_kinds (key) ON DELETE CASCADE, hour INTEGER NOT NULL, n INTEGER NOT NULL,
    first_at INTEGER NOT NULL, last_at INTEGER NOT NULL, PRIMARY KEY (key, hour)
  ) WITHOUT ROWID;
`;

function statements({ connection }: HistoryDatabase) {
  const sql = (text: string) => connection.prepare(text);
  const window = (table: string) => `FROM ${table} WHERE n < ?1 AND n >= ?2
      AND endpoint IN (SELECT value FROM json_each(?3)) AND at >= ?4 AND at <= ?5`;
  return {
    addRequest:
      sql(`INSERT INTO requests (endpoint, id, method, route, path, status, at, wait_ms, run_ms, total_ms, worker, cold)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    trimRequests: sql("DELETE FROM requests WHERE n <= (SELECT max(n) FROM requests) - ?"),
    requests:
      sql(`SELECT n, endpoint AS endpointId, id, method, route, path, status, at, wait_ms AS waitMs, run_ms AS runMs,
      total_ms AS totalMs, worker AS workerId, cold AS coldStart ${window("requests")}
      AND (?7 IS NULL OR route = ?7) AND status >= ?8 AND status <= ?9 AND (?10 = '' OR substr(id, 1, length(?10)) = ?10)
      ORDER BY n DESC LIMIT ?6`),
    lastRequest: sql("SELECT max(n) AS n FROM requests"),

    addDecision: sql("INSERT INTO decisions (endpoint, at, start, stop, reason, times) VALUES (?, ?, ?, ?, ?, ?)"),
    repeat: sql(`UPDATE decisions SET at = ?1, times = ?2 WHERE n = (SELECT max(n) FROM decisions WHERE endpoint = ?3)
      AND start = ?4 AND stop = ?5 AND reason = ?6`),
    recent: sql("SELECT at, start, stop, reason, times FROM decisions WHERE endpoint = ? ORDER BY n DESC LIMIT ?"),
    decisions: sql(`SELECT n, endpoint AS endpointId, at, start, stop, reason, times ${window("decisions")}
      ORDER BY n DESC LIMIT ?6`),
    lastDecision: sql("SELECT max(n) AS n FROM decisions"),
    trimDecisions: sql("DELETE FROM decisions WHERE n <= (SELECT max(n) FROM decisions) - ?"),
    trimDecisionsOf: sql(`DELETE FROM decisions WHERE endpoint = ? AND n <= (SELECT n FROM decisions WHERE endpoint = ?
      ORDER BY n DESC LIMIT 1 OFFSET ?)`),

    addKind:
      sql(`INSERT INTO error_kinds (key, endpoint, type, place, message, last_job, last_at) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`),
    changeKind: sql("UPDATE error_kinds SET message = ?, last_job = ?, last_at = ? WHERE key = ?"),
    trimKinds: sql(`DELETE FROM error_kinds WHERE key IN (SELECT key FROM error_kinds WHERE endpoint = ?
      ORDER BY last_at DESC LIMIT -1 OFFSET ?)`),
    trimOldKinds: sql("DELETE FROM error_kinds WHERE last_at < ?"),
    count: sql(`INSERT INTO error_counts (key, hour, n, first_at, last_at) VALUES (?, ?, 1, ?, ?)
      ON CONFLICT DO UPDATE SET n = n + 1, last_at = excluded.last_at`),
    trimCounts: sql("DELETE FROM error_counts WHERE hour < ?"),
    groups: sql(`SELECT k.key, k.type, k.place, k.message, k.endpoint AS endpointId, sum(c.n) AS count,
        min(c.first_at) AS firstAt, max(c.last_at) AS lastAt, k.last_job AS lastJobId
      FROM error_kinds k JOIN error_counts c ON c.key = k.key
      WHERE k.endpoint IN (SELECT value FROM json_each(?)) AND c.hour >= ? AND c.hour <= ?
      GROUP BY k.key ORDER BY lastAt DESC LIMIT ?`),

    endpoints: sql(
      "SELECT endpoint FROM decisions UNION SELECT endpoint FROM requests UNION SELECT endpoint FROM error_kinds",
    ),
    forget: ["requests", "decisions", "error_kinds"].map((table) => sql(`DELETE FROM ${table} WHERE endpoint = ?`)),
  };
}
