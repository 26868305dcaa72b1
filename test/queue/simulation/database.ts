/**
 * A PostgreSQL as the queue knows it: carries out its statements by what they mean, each as a whole, remembers how to undo each commit,
 * and can come back without the last ones, as a standby that lacks them does. It checks each batch as it is written.
 */
import { CANCELLED, COMPLETED } from "../../../src/queue/machine/job-row.ts";
import { COUNTED, PARTS } from "../../../src/queue/postgres/statement.ts";

type Values = Record<string, unknown>;
export type Row = Values & { seq: number; id: string; endpoint: number; state: number; fence: number };
interface ShardRow {
  owner: string;
  epoch: number;
  nonce: number;
  writer: number;
  last_seq: number;
}

/** What is left out, to see that it is missed. */
export type Fault = "fence" | "nonce" | "journal" | "tail";

export class Violation extends Error {}

export class Database {
  readonly shards = new Map<number, ShardRow>();
  readonly replicas = new Map<string, { beat: number; draining: boolean }>();
  readonly journal = new Map<string, { writer: number; n: number; counts: string; last_seq: number }>();
  readonly endpoints = new Map<number, Values & { id: string }>();
  readonly open = new Map<number, Row>();
  readonly done = new Map<number, Row>();
  /** Each failover is another server: what was under way at the one before is lost. */
  generation = 0;
  batches = 0;
  readonly #fault: Fault | undefined;
  readonly #commits: (() => void)[][] = [];
  #undo: (() => void)[] = [];

  constructor(shards: number, fault?: Fault) {
    this.#fault = fault;
    for (let shard = 0; shard < shards; shard++)
      this.shards.set(shard, { owner: "", epoch: 0, nonce: 0, writer: 0, last_seq: 0 });
  }

  /** One transaction: nothing else is carried out between its statements. */
  async commit<T>(
    work: (query: (text: string, values?: readonly unknown[], name?: string) => Promise<Values[]>) => Promise<T>,
  ): Promise<T> {
    this.#undo = [];
    try {
      const value = await work(async (text, values = [], name) => this.#execute(text, values, name));
      if (this.#undo.length > 0) this.#commits.push(this.#undo);
      return value;
    } catch (error) {
      for (const undo of this.#undo.reverse()) undo();
      throw error;
    }
  }

  /** Another server is the primary; it lacks so many commits. */
  failOver(lost: number): void {
    this.generation++;
    for (let n = 0; n < lost; n++) for (const undo of this.#commits.pop()?.reverse() ?? []) undo();
  }

  #set<K, V>(table: Map<K, V>, key: K, value: V | undefined): void {
    const before = table.get(key);
    this.#undo.push(() => {
      if (before === undefined) table.delete(key);
      else table.set(key, before);
    });
    if (value === undefined) table.delete(key);
    else table.set(key, value);
  }

  #execute(text: string, values: readonly unknown[], name: string | undefined): Values[] {
    if (name?.startsWith("svc-queue-")) return [this.#batch(name, values)];
    for (const [start, run] of this.#statements) if (text.startsWith(start)) return run(values, text);
    throw new Violation(`the model does not know: ${text}`);
  }

  readonly #statements: readonly (readonly [string, (values: readonly unknown[], text: string) => Values[]])[] = [
    ["SET LOCAL", () => []],
    ["BEGIN", () => []],
    ["COMMIT", () => []],
    ["ROLLBACK", () => []],
    ["WITH s AS (SELECT q.shard", (values) => this.#take(values)],
    [
      "SELECT n, counts FROM queue_journal",
      ([writer]) =>
        [...this.journal.values()]
          .filter((row) => writer === undefined || row.writer === writer)
          .sort((a, b) => a.writer - b.writer || a.n - b.n),
    ],
    ["UPDATE queue_endpoints o SET", (values) => this.#storeCounts(values)],
    ["WITH mine AS", (values) => this.#give(values)],
    [
      "WITH gone AS",
      ([shards]) => {
        const given = [...this.journal.values(), ...this.shards.values()].map((row) => row.last_seq);
        const last_seq = Math.max(0, ...given, ...this.open.keys());
        for (const shard of shards as number[]) this.#set(this.shards, shard, { ...this.shards.get(shard)!, last_seq });
        const writers = new Set([...this.shards.values()].map(({ writer }) => writer));
        for (const [key, { writer }] of this.journal) if (!writers.has(writer)) this.#set(this.journal, key, undefined);
        return [{ last_seq }];
      },
    ],
    [
      "WITH beats AS",
      ([id, , , , draining, writer, n]) => {
        const seen = {
          tail: this.#hasTail(writer as number, n as number),
          replicas: [...this.replicas].map(([name, row]) => ({ id: name, ...row })),
          shards: [...this.shards].map(([shard, { owner, epoch, nonce }]) => [shard, owner, epoch, nonce]),
        };
        const beat = (this.replicas.get(id as string)?.beat ?? 0) + 1;
        this.#set(this.replicas, id as string, { beat, draining: draining as boolean });
        return [seen];
      },
    ],
    ["SELECT set_config", () => []],
    ["SELECT (($2::int8 = 0", ([writer, n]) => [{ there: this.#hasTail(writer as number, n as number) }]],
    [
      "DELETE FROM replicas",
      ([id]) => {
        this.#set(this.replicas, id as string, undefined);
        return [];
      },
    ],
    [
      "SELECT shard, epoch, nonce FROM queue_shards",
      ([shards]) => (shards as number[]).map((shard) => ({ shard, ...this.shards.get(shard)! })),
    ],
    [
      "SELECT * FROM queue_endpoints",
      (_, text) =>
        within(
          text,
          [...this.endpoints].map(([number, row]) => ({ number, ...row })),
          "number",
        ),
    ],
    ["SELECT endpoint, ARRAY", () => []],
    ["WITH c AS", () => []],
    [
      "SELECT id, seq FROM open_jobs",
      ([ids]) => [...this.open.values()].filter(({ id }) => (ids as string[]).includes(id)),
    ],
    ["SELECT id FROM open_jobs WHERE id = ANY", () => []],
    ["SELECT seq, id", (values, text) => this.#jobs(values, text)],
  ];

  #hasTail(writer: number, n: number): boolean {
    if (n === 0 || this.#fault === "tail" || ![...this.shards.values()].some((shard) => shard.writer === writer))
      return true;
    return [...this.journal.values()].some((row) => row.writer === writer && row.n >= n);
  }

  #jobs(values: readonly unknown[], text: string): Values[] {
    if (text.includes("FROM open_jobs WHERE state = 1"))
      return within(
        text,
        [...this.open.values()].filter(({ state }) => state === 1),
        "seq",
      ).map((row) => ({ ...row }));
    if (text.includes("seq > $3")) {
      const [endpoint, low, after, limit] = values as number[];
      return [...this.open.values()]
        .filter((row) => row.endpoint === endpoint && row.state === 0 && row.low_priority === low && row.seq > after!)
        .sort((a, b) => a.seq - b.seq)
        .slice(0, limit)
        .map((row) => ({ ...row }));
    }
    if (text.includes("j WHERE id = $1")) {
      const found = (table: Map<number, Row>, place: string) =>
        [...table.values()]
          .filter(({ id }) => id === values[0])
          .map((row) => ({ ...row, place, chunk_bytes: 0, chunk_count: 0 }));
      return [...found(this.open, "open"), ...found(this.done, "done")];
    }
    throw new Violation(`the model does not know: ${text}`);
  }

  #take([owner, nonce, writer, ...columns]: readonly unknown[]): Values[] {
    const [shards, epochs, nonces] = columns.map((column) => arrayIn(column as Buffer) as number[]);
    return shards!.flatMap((shard, n) => {
      const row = this.shards.get(shard)!;
      if (row.epoch !== epochs![n] || row.nonce !== nonces![n]) return [];
      const epoch = row.epoch + 1;
      const taken = { ...row, owner, epoch, nonce, writer } as ShardRow;
      this.#set(this.shards, shard, taken);
      return [{ shard, epoch }];
    });
  }

  #give(values: readonly unknown[]): Values[] {
    const [shards, epochs, nonces, owners] = values.slice(-6, -2).map((column) => arrayIn(column as Buffer));
    const [writer, n] = values.slice(-2) as [number, number];
    const mine = (shards as number[]).flatMap((shard, at) => {
      const row = this.shards.get(shard)!;
      return row.epoch === epochs![at] && row.nonce === nonces![at] ? [{ shard, owner: owners![at] as string }] : [];
    });
    const lacks = mine.length > 0 && !this.#hasTail(writer, n);
    if (lacks) return [{ lacks }];
    for (const { shard, owner } of mine) this.#set(this.shards, shard, { ...this.shards.get(shard)!, owner, nonce: 0 });
    const given = new Set(mine.map(({ shard }) => shard));
    this.#storeCounts(values, (number) => given.has(number % 256));
    return [{ lacks }];
  }

  #storeCounts(values: readonly unknown[], isMeant: (number: number) => boolean = () => true): Values[] {
    const [numbers, ...columns] = values.slice(0, COUNTED.length + 1).map((column) => arrayIn(column as Buffer));
    for (const [n, number] of (numbers as number[]).entries()) {
      if (!this.endpoints.has(number) || !isMeant(number)) continue;
      const counts = Object.fromEntries(COUNTED.map((name, at) => [name, columns[at]![n]]));
      this.#set(this.endpoints, number, { ...this.endpoints.get(number)!, ...counts });
    }
    return [];
  }

  #batch(name: string, values: readonly unknown[]): Values {
    this.batches++;
    const [shards, epochs, nonces] = values.slice(0, 3).map((column) => arrayIn(column as Buffer) as number[]);
    const [writer, n, counts, last_seq, , after] = values.slice(3, 9) as [
      number,
      number,
      string,
      number,
      number,
      number,
    ];
    const own = shards!.filter((shard, at) => {
      const row = this.shards.get(shard)!;
      if (this.#fault === "fence") return true;
      return row.epoch === epochs![at] && (row.nonce === nonces![at] || this.#fault === "nonce");
    });
    const key = `${writer} ${n}`;
    const before = this.journal.has(key) && this.#fault !== "journal" ? 1 : 0;
    const follows = after === 0 || this.journal.has(`${writer} ${after}`) || this.#fault === "tail";
    if (own.length < shards!.length || before === 1 || !follows)
      return { own: own.length, log: 0, before, follows, refs: null };
    for (const shard of shards!) {
      const row = this.shards.get(shard)!;
      if (row.writer !== writer) throw new Violation(`shard ${shard} is of ${row.writer}, and ${writer} writes for it`);
    }
    this.#set(this.journal, key, { writer, n, counts, last_seq });
    let at = 9;
    const bits = Number.parseInt(name.slice("svc-queue-".length), 36);
    for (const [index, part] of PARTS.entries()) {
      if ((bits & (1 << index)) === 0) continue;
      const columns = part.columns.map((column) => [column.name, arrayIn(values[at++] as Buffer)] as const);
      const rows = columns[0]![1].map((_, row) =>
        Object.fromEntries(columns.map(([column, all]) => [column, all[row]])),
      );
      for (const row of rows) this.#change(part.name, row, writer, n);
    }
    return { own: own.length, log: 1, before: 0, follows, refs: null };
  }

  #change(part: string, row: Values, writer: number, n: number): unknown {
    const seq = row.seq as number;
    const { was, ...changes } = row;
    const stored = this.open.get(seq);
    if (part !== "open_in" && part !== "plain_in" && "was" in row && (stored === undefined || stored.fence !== was))
      throw new Violation(`${part} does not find the row of job ${seq}`);
    switch (part) {
      case "open_in":
      case "plain_in": {
        const plain = { retries: 0, attempts: 0, method: "", webhook: "", key: "", due_at: null, input_ref: null };
        const inserted = {
          ...BARE,
          ...plain,
          expires_at: (row.created_at as number) + (row.ttl_ms as number),
          ...row,
        } as unknown as Row;
        if ([...this.open.values()].some(({ id }) => id === row.id))
          throw Object.assign(new Error("unique"), { cause: { code: "23505" } });
        return this.#set(this.open, seq, inserted);
      }
      case "open_up":
        return this.#set(this.open, seq, { ...stored!, ...changes } as Row);
      case "finish":
      case "plain_finish":
        if (this.done.has(seq)) throw new Violation(`job ${stored!.id} ends twice`);
        this.#set(this.open, seq, undefined);
        return this.#set(this.done, seq, { ...stored!, state: COMPLETED, ...changes } as Row);
      case "done_in":
        if ([...this.open.values(), ...this.done.values()].some(({ id }) => id === row.id))
          throw new Violation(`job ${row.id} ends in the batch that stores it, and is there already`);
        return this.#set(this.done, seq, { ...BARE, ...row } as unknown as Row);
      case "open_out":
        return this.#set(this.open, seq, undefined);
      case "endpoint_in": {
        const { number, ...endpoint } = row;
        return this.#set(this.endpoints, number as number, endpoint as Values & { id: string });
      }
      case "endpoint_up": {
        const { number, ...all } = row;
        if (!this.endpoints.has(number as number)) throw new Violation(`endpoint_up does not find ${number}`);
        return this.#set(this.endpoints, number as number, { ...this.endpoints.get(number as number)!, ...all });
      }
      case "journal_out":
        for (const [key, one] of this.journal)
          if (one.writer === writer && one.n < n) this.#set(this.journal, key, undefined);
        return undefined;
      default:
        throw new Violation(`the model does not know ${part}`);
    }
  }
}

const BARE = { worker_id: "", started_at: null, finished_at: null, output_ref: null, error_ref: null };
export const isFinal = (state: number): boolean => state >= COMPLETED && state <= CANCELLED;

/** What a condition over shards leaves. */
function within<T extends Values>(text: string, rows: readonly T[], number: string): T[] {
  const shards = /ANY\('\{([\d,]*)\}'\)/.exec(text);
  if (shards === null) return [...rows];
  const of = new Set(shards[1] === "" ? [] : shards[1]!.split(",").map(Number));
  return rows.filter((row) => of.has((row[number] as number) % 256));
}

/** The values of an array in PostgreSQL's binary format. */
function arrayIn(buffer: Buffer): unknown[] {
  if (buffer.readInt32BE(0) === 0) return [];
  const type = buffer.readInt32BE(8);
  const values: unknown[] = [];
  let at = 20;
  for (let left = buffer.readInt32BE(12); left > 0; left--) {
    const length = buffer.readInt32BE(at);
    at += 4;
    if (length === -1) {
      values.push(null);
      continue;
    }
    const bytes = buffer.subarray(at, at + length);
    at += length;
    if (type === 21) values.push(bytes.readInt16BE(0));
    else if (type === 23) values.push(bytes.readInt32BE(0));
    else if (type === 20) values.push(Number(bytes.readBigInt64BE(0)));
    else values.push(type === 25 ? bytes.toString("utf8") : bytes);
  }
  return values;
}
