/** Calls of every kind, one after the other by each caller with a breath between them, that must all succeed. */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import type { Subject } from "./subject.ts";

/** Where the calls go. */
export type Called = Pick<Subject, "url" | "key" | "ask">;

export const TRAFFIC_PROJECT = (version: number) => ({
  "traffic.py": `
import asyncio
from svc import Endpoint

VERSION = ${version}

@Endpoint(name="work", workers=(1, 3))
def work(n):
    return n

web = Endpoint(name="web", workers=(1, 2), max_concurrency=8)

@web.get("/hello")
async def hello(): return {"version": VERSION}

@web.websocket("/talk")
async def talk(socket):
    async for message in socket:
        await socket.send("back " + message)
`,
});

export interface Traffic {
  /** Of each kind, how many calls succeeded. */
  readonly done: Record<string, number>;
  /** What went wrong, with its kind. */
  readonly failed: string[];
  stop(): Promise<void>;
}

const CALLERS_OF_EACH = 2;
const CALL_MAX_MS = 30_000;
/** Callers without it leave what is done to the platforms meanwhile no processor. */
const BREATH_MS = 10;

export function startTraffic(subject: Called, urls: Readonly<Record<string, string>>): Traffic {
  const done: Record<string, number> = { runsync: 0, "load-balanced": 0, WebSocket: 0 };
  const failed: string[] = [];
  let over = false;
  const calls: Record<string, () => Promise<void>> = {
    runsync: async () => {
      const { status, text, json } = await subject.ask(
        `${urls.work}/runsync`,
        { input: { n: 1 } },
        { maxMs: CALL_MAX_MS },
      );
      if (status !== 200 || json.status !== "COMPLETED") throw new Error(`${status} ${text}`);
    },
    "load-balanced": async () => {
      const { status, text } = await subject.ask(`${urls.web}/hello`, undefined, { maxMs: CALL_MAX_MS });
      if (status !== 200) throw new Error(`${status} ${text}`);
    },
    WebSocket: () => talk(subject, urls.web!),
  };
  const callers = Object.entries(calls).flatMap(([kind, call]) =>
    Array.from({ length: CALLERS_OF_EACH }, async () => {
      while (!over) {
        try {
          await call();
          done[kind]!++;
        } catch (error) {
          failed.push(`${kind}: ${(error as Error).message}`);
        }
        await delay(BREATH_MS);
      }
    }),
  );
  const stop = async () => {
    over = true;
    await Promise.all(callers);
  };
  return { done, failed, stop };
}

async function talk(subject: Called, route: string): Promise<void> {
  const headers = { authorization: `Bearer ${subject.key}` };
  const socket = new WebSocket(`${subject.url.replace("http", "ws")}${route}/talk`, { headers });
  try {
    const signal = AbortSignal.timeout(CALL_MAX_MS);
    await once(socket, "open", { signal });
    socket.send("hello");
    const [answer] = await once(socket, "message", { signal });
    if (String(answer) !== "back hello") throw new Error(`answered ${answer}`);
  } finally {
    socket.on("error", () => {});
    socket.close();
  }
}
