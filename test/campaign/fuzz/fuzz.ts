/** Makes and reads inputs of every kind, from a seed, and says what broke. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { eventually } from "../../eventually.ts";
import { openFiles } from "../../open-files.ts";
import { seededRandom } from "../seeded-random.ts";
import { Subject } from "../subject.ts";
import { Mutator } from "./mutate.ts";
import { FUZZED } from "./project.ts";
import { conversation, type Target } from "./requests.ts";
import { mannerOf, talk } from "./talk.ts";
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
const ANSWER_MAX_MS = 30_000;
const LINES_SHOWN = 30;
/** Of callers that are kept alive, and of the platform's own work. */
const SOCKETS_SPARE = 24;
/** What a caller left behind is noticed when it is asked after (gateway/caller.ts), and jobs that were queued are done. */
const LEFT_MAX_MS = 30_000;

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
    const { sent, rssMb } = await fuzzPlatform(subject, seed, requests, note);
    inputs.HTTP = sent;
    return { inputs, broken, rssMb };
  } finally {
    await subject.close();
  }
}

type Note = (kind: string, number: number, what: string) => void;

async function fuzzPlatform(subject: Subject, seed: number, requests: number, note: Note) {
  const urls = await subject.set(FUZZED);
  const volume = `mutation { createVolume(app: "campaign", environment: "production", name: "files") { name } }`;
  assert.equal((await subject.ask("/graphql", { query: volume })).json.errors, undefined);
  const worker = (await subject.ask(`${urls.puller}/runsync`, { input: {} })).json.output as Target["worker"];
  const logged: string[] = [];
  // It names what lies behind an answer of 500, and Node warns of what leaks.
  subject.onLogLine = (line) => {
    if (logged.push(line) > LINES_SHOWN) logged.shift();
    if (/ error |\(node:\d+\)/.test(line)) note("the platform's log", seed, line);
  };
  const target: Target = { key: subject.key, urls, worker };
  const place = { port: Number(new URL(subject.url).port), answerMaxMs: ANSWER_MAX_MS };
  await seesWhatIsLeft(subject, urls, note);
  const before = openIn(subject.pid);
  let rssMb = 0;
  let sent = 0;
  let connection = 0;
  const said = new Map<number, string>();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (sent < requests && subject.isAlive) {
        const own = seed + connection++;
        const mutator = new Mutator(seededRandom(own));
        const { bytes, requests: count, isHeld } = conversation(mutator, target, own);
        const manner = mannerOf(mutator, isHeld);
        sent += count;
        said.set(own, manner);
        const wrong = await talk(bytes, manner, mutator, place);
        if (!subject.isAlive) return;
        said.delete(own);
        if (wrong !== undefined) note(`HTTP, ${manner}`, own, wrong);
        if (connection % 50 === 0) rssMb = Math.max(rssMb, rssOf(subject.pid));
      }
    }),
  );
  if (!subject.isAlive) {
    const during = [...said].map(([own, manner]) => `${own} (${manner})`).join(", ");
    throw new Error(`seed ${seed}: the platform ended while it was told ${during}\n${logged.join("\n")}`);
  }
  const health = await subject
    .ask(`${urls.probe}/runsync`, { input: { n: 1 } })
    .catch((error: Error) => ({ status: 0, text: String(error) }));
  if (health.status !== 200)
    note("HTTP", seed, `the platform does not answer afterwards: ${health.status} ${health.text}`);
  const left = () => whatIsLeft(subject, before);
  await eventually(async () => assert.equal(await left(), ""), LEFT_MAX_MS).catch(async () =>
    note("HTTP", seed, `of all that has ended there is still ${await left()}`),
  );
  return { sent, rssMb: Math.max(rssMb, rssOf(subject.pid)) };
}

/** A check that sees nothing finds nothing: one call that runs and many connections are seen. */
async function seesWhatIsLeft(subject: Subject, urls: Readonly<Record<string, string>>, note: Note): Promise<void> {
  const port = Number(new URL(subject.url).port);
  const before = openIn(subject.pid);
  const sockets = Array.from({ length: 2 * SOCKETS_SPARE }, () => connect(port, "127.0.0.1").pause());
  const head = `HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${subject.key}\r\n\r\n`;
  for (const socket of sockets) socket.write(`GET ${urls.edge}/endless ${head}`);
  await eventually(async () => assert.match(await whatIsLeft(subject, before), /on workers.*sockets/)).catch((error) =>
    note("the test itself", 0, `it does not see what is left: ${error}`),
  );
  for (const socket of sockets) socket.destroy();
  await eventually(async () => assert.equal(await whatIsLeft(subject, before), ""));
}

/** "" when nothing runs, nothing waits, and no more is open than before, but for some sockets. */
async function whatIsLeft(subject: Subject, before: Open): Promise<string> {
  const { text } = await subject.ask("/metrics");
  /** Of which endpoints, and how many. */
  const counts = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{(.*)\\} ([1-9]\\d*)$`, "gm"))]
      .map(([, labels, n]) => `${n} (${labels})`)
      .join();
  const running = counts("svc_running");
  const waiting = counts("svc_waiting");
  const { sockets, files } = openIn(subject.pid);
  const socketsMax = before.sockets + SOCKETS_SPARE;
  return [
    running !== "" && `on workers ${running}`,
    waiting !== "" && `waiting ${waiting}`,
    sockets > socketsMax && `${sockets} sockets (${socketsMax} are allowed)`,
    files > before.files && `${files} files (${before.files} are allowed)`,
  ]
    .filter(Boolean)
    .join(", ");
}

interface Open {
  readonly sockets: number;
  readonly files: number;
}

function openIn(pid: number): Open {
  const names = openFiles(pid);
  const count = (start: string) => names.filter((name) => name.startsWith(start)).length;
  return { sockets: count("socket:"), files: count("/") };
}

function rssOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  } catch {
    return 0; // It ended, which is noted elsewhere.
  }
}
