/** Makes and reads inputs of every kind, from a seed, and says what broke. */
import { readFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { project } from "../loads.ts";
import { seededRandom } from "../seeded-random.ts";
import { Subject } from "../subject.ts";
import { conversation, type Target, talk } from "./http.ts";
import { Mutator } from "./mutate.ts";
import { textKinds } from "./texts.ts";

export interface FuzzReport {
  readonly inputs: Readonly<Record<string, number>>;
  /** Each with its kind, its own seed and what happened. */
  readonly broken: readonly string[];
  /** Of the platform, at its largest and when everything was over. */
  readonly rssMb: number;
}

export interface FuzzOptions {
  readonly seed: number;
  /** Of each kind that is read in this process; a tenth as many layer archives. */
  readonly texts: number;
  /** Requests. */
  readonly requests: number;
}

const AT_ONCE = 8;
const TEXT_MAX_MS = 10_000;
const BROKEN_SHOWN = 50;

export async function fuzz({ seed, texts, requests }: FuzzOptions): Promise<FuzzReport> {
  const inputs: Record<string, number> = {};
  const broken: string[] = [];
  const note = (kind: string, number: number, what: string) => {
    if (broken.length < BROKEN_SHOWN) broken.push(`${kind}, seed ${number}: ${what}`);
  };
  const { kinds, close } = await textKinds();
  for (const [kind, read] of Object.entries(kinds)) {
    const count = kind === "layer archives" ? Math.ceil(texts / 10) : texts;
    inputs[kind] = count;
    for (let n = 0; n < count; n++) {
      const started = performance.now();
      try {
        await read(new Mutator(seededRandom(seed + n)));
      } catch (error) {
        note(kind, seed + n, (error as Error).stack ?? String(error));
      }
      if (performance.now() - started > TEXT_MAX_MS) note(kind, seed + n, "took longer than 10 s");
      if (n % 100 === 99) await setImmediate();
    }
  }
  close();
  const subject = await Subject.start();
  try {
    const urls = await subject.set(project(0));
    // It names what lies behind an answer of 500.
    subject.onLogLine = (line) => {
      if (/ error /.test(line) && !/Error: aborted/.test(line)) note("the platform's log", seed, line);
    };
    const target: Target = { subject, paths: Object.values(urls) };
    let rssMb = 0;
    let sent = 0;
    let connection = 0;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (sent < requests && subject.isAlive) {
          const own = seed + connection++;
          const said = conversation(new Mutator(seededRandom(own)), target);
          sent += said.requests;
          const wrong = await talk(said.bytes, target);
          if (wrong !== undefined) note("HTTP", own, wrong);
          if (connection % 50 === 0 && subject.isAlive) rssMb = Math.max(rssMb, rssOf(subject.pid));
        }
      }),
    );
    inputs["HTTP and GraphQL"] = sent;
    const health = await subject
      .ask(`${urls.probe}/runsync`, { input: { n: 1 } })
      .catch((error: Error) => ({ status: 0, text: String(error) }));
    if (health.status !== 200)
      note("HTTP", seed, `the platform does not answer afterwards: ${health.status} ${health.text}`);
    return { inputs, broken, rssMb: Math.max(rssMb, rssOf(subject.pid)) };
  } finally {
    await subject.close();
  }
}

function rssOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  } catch {
    return 0; // It ended, which is noted elsewhere.
  }
}
