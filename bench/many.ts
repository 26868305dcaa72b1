/**
 * Much that nobody uses: endpoints that are deployed and not called, and connections that are open and silent. One endpoint is called,
 * first with few beside it and then with many, so that what the others cost is seen. The others are copies of its row: their
 * deploys are no part of this.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, atMost, type Bench, type BenchResult, median } from "./bench.ts";
import { load, requireWrk } from "./load.ts";
import { type BenchPlatform, startPlatform } from "./processes.ts";
import { processorTime, residentMb, total } from "./processor-time.ts";

const ENDPOINTS = 10_000;
const CONNECTIONS = 10_000;
const OPENING = 100;
const SECONDS = 2;
const SETTLE_MS = 3_000;
const REST_MS = 5_000;
const LOAD_CONNECTIONS = 16;
const WORKER = `
from svc import Endpoint

@Endpoint(name="called", workers=(0, 1))
def called(n=1):
    return n

@Endpoint(name="idle", workers=(0, 1))
def idle(n=1):
    return n
`;

export const bench: Bench = (options) => many({ ...options, endpoints: ENDPOINTS, connections: CONNECTIONS });

export async function many(options: {
  readonly rounds: number;
  readonly endpoints: number;
  readonly connections: number;
}): Promise<BenchResult> {
  const { rounds, endpoints, connections } = options;
  const wrk = await requireWrk();
  const seen = new Map<string, number[]>();
  const note = (name: string, value: number) => getOrInsert(seen, name, () => []).push(value);
  const platform = await startPlatform();
  try {
    const { called } = await platform.deploy({ "worker.py": WORKER });
    const stages = { "2 endpoints": 0, [`${endpoints} endpoints`]: endpoints };
    for (const [stage, copies] of Object.entries(stages)) {
      for (let round = 0; round < rounds; round++) {
        note(`start, ${stage} ms`, await platform.restart(() => setCopies(platform, copies)));
        await call(platform, called!);
        await delay(SETTLE_MS);
        const spent = processorTime({ platform: { pids: [platform.pid] } });
        await delay(REST_MS);
        note(`at rest, ${stage} % of a core`, (total(spent()) / REST_MS) * 100);
        note(`resident, ${stage} MB`, residentMb(platform.pid));
        note(`runsync, ${stage} requests/s`, await rate(platform, called!));
      }
    }
    const sockets = await open(platform, connections);
    try {
      for (let round = 0; round < rounds; round++) {
        note(`runsync, ${sockets.length} open connections requests/s`, await rate(platform, called!));
        note(`resident, ${sockets.length} open connections MB`, residentMb(platform.pid));
      }
      const spent = processorTime({ platform: { pids: [platform.pid] } });
      await delay(REST_MS);
      note(`at rest, ${sockets.length} open connections % of a core`, (total(spent()) / REST_MS) * 100);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    return told(seen, options, sockets.length, wrk);
  } finally {
    await platform.stop();
  }
}

/** Leaves so many copies of the endpoint `idle` in the stopped platform's database. */
function setCopies(platform: BenchPlatform, copies: number): void {
  const database = new DatabaseSync(path.join(platform.dataDir, "platform.db"));
  try {
    const columns = database
      .prepare("SELECT name FROM pragma_table_info('endpoints')")
      .all()
      .map(({ name }) => `${name}`);
    const given = columns.map((name) => (name === "id" || name === "name" ? `'copy-' || ?1` : `"${name}"`));
    database.exec("BEGIN; DELETE FROM endpoints WHERE id LIKE 'copy-%'");
    const names = columns.map((name) => `"${name}"`).join();
    const copy = database.prepare(
      `INSERT INTO endpoints (${names}) SELECT ${given.join()} FROM endpoints WHERE name = 'idle'`,
    );
    for (let n = 0; n < copies; n++) copy.run(String(n));
    database.exec("COMMIT");
  } finally {
    database.close();
  }
}

async function call(platform: BenchPlatform, url: string): Promise<void> {
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/runsync`, { method: "POST", headers, body: '{"input":{}}' });
  const { status } = (await answer.json()) as { status: string };
  if (status !== "COMPLETED") throw new Error(`a job ended ${status}`);
}

async function rate(platform: BenchPlatform, url: string): Promise<number> {
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const target = { url: `${url}/runsync`, method: "POST", headers, body: '{"input":{}}' } as const;
  return (await load(target, LOAD_CONNECTIONS, SECONDS)).requestsPerSecond;
}

/** As many as the platform takes, each with one answered request behind it. */
async function open(platform: BenchPlatform, count: number): Promise<Socket[]> {
  const { port, host } = new URL(platform.url);
  const sockets: Socket[] = [];
  const one = async () => {
    const socket = connect(Number(port), "127.0.0.1");
    socket.on("error", () => {});
    socket.write(`GET /ping HTTP/1.1\r\nhost: ${host}\r\n\r\n`);
    const answered = await Promise.race([once(socket, "data"), once(socket, "close").then(() => undefined)]);
    if (answered !== undefined) sockets.push(socket);
  };
  for (let n = 0; n < count; n += OPENING) await Promise.all(Array.from({ length: Math.min(OPENING, count - n) }, one));
  return sockets.filter((socket) => !socket.destroyed);
}

function told(
  seen: Map<string, number[]>,
  { rounds, endpoints, connections }: Parameters<typeof many>[0],
  opened: number,
  wrk: string,
): BenchResult {
  const figures = Object.fromEntries([...seen].map(([name, values]) => [name, median(values)]));
  const few = figures["runsync, 2 endpoints requests/s"]!;
  const ratios = {
    [`rate, ${endpoints} endpoints / 2`]: figures[`runsync, ${endpoints} endpoints requests/s`]! / few,
    [`rate, ${opened} open connections / none`]:
      figures[`runsync, ${opened} open connections requests/s`]! /
      figures[`runsync, ${endpoints} endpoints requests/s`]!,
  };
  return {
    conditions: {
      endpoints: `${endpoints} copies of one that nobody calls, one with a warm worker; auth on`,
      connections: `${opened} of ${connections} were taken; each has had one answer`,
      load: `${wrk}, ${LOAD_CONNECTIONS} connections, ${SECONDS} s each, same machine, ${rounds} rounds`,
    },
    figures: { ...ratios, ...figures },
    bars: {
      [`rate, ${endpoints} endpoints / 2`]: atLeast(ratios[`rate, ${endpoints} endpoints / 2`]!, 0.9),
      resident: atMost(figures[`resident, ${endpoints} endpoints MB`]!, 300, " MB"),
      start: atMost(figures[`start, ${endpoints} endpoints ms`]!, 3_000, " ms"),
      "at rest": atMost(figures[`at rest, ${endpoints} endpoints % of a core`]!, 2, " % of a core"),
      "connections taken": atLeast(opened, connections),
    },
  };
}
