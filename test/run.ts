/**
 * Runs every test file (or those whose path contains an argument), some at a time, and closes with `N passed, N failed`.
 * Only tests count, not the suites around them. It always ends: each file has a limit, and nothing of it lives on.
 * With --servers first: those that start platforms, on PostgreSQL and S3 (servers.ts); with --gateways: those that call platforms, through
 * gateway processes, and those of the gateway through a link; with --pods: those of whole platforms, whose workers run in Pods (pods.ts). A run of
 * everything has a few of each.
 * What keeps attacks off must hold for whoever runs the platform: as root, files of test/security run once more as an ordinary user.
 */
import { chmodSync, globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, tmpdir } from "node:os";
import path from "node:path";
import { keepSeconds, longestFirst } from "./harness/order.ts";
import { ordinaryUser, sharedCompiled, whyNot } from "./harness/ordinary-user.ts";
import { PortSlices } from "./harness/port-slices.ts";
import { type FileResult, runFile } from "./harness/run-file.ts";
import { removeFolder } from "./remove-folder.ts";
import { SetUp, type With } from "./set-up.ts";

/** Processors wait when this share of them did nothing for so long. */
const IDLE_SHARE = 0.1;
const LOOK_EVERY_MS = 1_000;
/** So many files more at a time than there are processors, as much of a test is waiting. */
const LANES_MORE = 2;
/** And for each processor so many besides, while processors wait. */
const OTHERS_MAX = 4;
/** Of a failure, in the list of them at the end. */
const CAUSE_LINES = 12;
/** A file with a platform and a browser takes as much. */
const SPARE_BYTES = 1_500_000_000;
/** Those whose tests start whole platforms, and what of them crosses most of the code. */
const WITH_SERVERS = "test/{e2e,console,control-plane,dev,security,cli}/**/*.test.ts";
const ALSO_WITH_SERVERS = ["crash", "full-machine", "job-life"].map((name) => `/test/e2e/${name}.test.ts`);

const THROUGH_GATEWAYS = "test/{gateway,e2e,console,control-plane,security}/**/*.test.ts";
const ALSO_THROUGH_GATEWAYS = [
  "gateway/job-routes",
  "gateway/load-balanced",
  "gateway/wire",
  "gateway/shutdown",
  "e2e/job-life",
].map((name) => `/test/${name}.test.ts`);
const GATEWAYS_ENV = { SVC_TEST_GATEWAYS: "2" };

/** What crosses most of what runs workers, wherever they run. What is left out is about machines of another kind, or about what Pods refuse. */
const ON_PODS =
  /\/e2e\/(bad-calls|bad-input|batching|boot-failure|call-command|calling|crash|dependencies|deploy-again|job-life|jobs-command|lifecycle|load-balanced|load-balanced-fastapi|load-balanced-streams|many-items|metrics|open-endpoints|openai|prefetch|production|retries|rolling|schedules|secret-keys|stop|stream-limits|traces|webhook|worker-failures|worker-start)\.test\.ts$/;
const ALSO_ON_PODS = ["/test/e2e/job-life.test.ts"];

const root = path.resolve(import.meta.dirname, "..");
const onServers = process.argv[2] === "--servers";
const throughGateways = process.argv[2] === "--gateways";
const onPods = process.argv[2] === "--pods";
const ofKind = onServers || throughGateways || onPods;
const wanted = process.argv.slice(ofKind ? 3 : 2);
const kinds = onServers ? WITH_SERVERS : throughGateways ? THROUGH_GATEWAYS : "test/**/*.test.ts";
const files = globSync(kinds, { cwd: root })
  .filter((file) => !onPods || (wanted.length === 0 ? ON_PODS.test(`/${file}`) : file.includes("/e2e/")))
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .sort()
  .map((file) => path.join(root, file));
if (files.length === 0) {
  console.error(`No test file matches ${wanted.join(" ")}.`);
  process.exit(1);
}

interface Run extends With {
  readonly file: string;
  readonly asUser: boolean;
  readonly gateways: boolean;
}

const all = files.flatMap((file): Run[] => {
  const ofAll = !ofKind && wanted.length === 0;
  const isOne = (names: readonly string[]) => ofAll && names.some((name) => file.endsWith(name));
  const plain = { file, asUser: false, servers: onServers, gateways: throughGateways, pods: onPods };
  return [
    plain,
    ...(process.getuid?.() === 0 && file.includes("/test/security/") ? [{ ...plain, asUser: true }] : []),
    ...(isOne(ALSO_WITH_SERVERS) ? [{ ...plain, servers: true }] : []),
    ...(isOne(ALSO_THROUGH_GATEWAYS) ? [{ ...plain, gateways: true }] : []),
    ...(isOne(ALSO_ON_PODS) ? [{ ...plain, pods: true }] : []),
  ];
});

const runs = longestFirst(all, nameOf);
const stop = new AbortController();
const stopped = new Promise<void>((resolve) => stop.signal.addEventListener("abort", () => resolve()));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => stop.abort());
const counts = { passed: 0, failed: 0, skipped: 0 };
const failed: string[] = [];
const times: { file: string; run: string; seconds: number; cpuSeconds: number }[] = [];
const started = performance.now();
// Compiled code of earlier processes: a test starts dozens.
process.env.NODE_COMPILE_CACHE ??= path.join(root, "node_modules/.cache/tests");
const folder = mkdtempSync(path.join(tmpdir(), "svc-t-"));
const setUp = await SetUp.begin(files, runs);
const left = [...runs];
const ports = new PortSlices();
let taken = 0;
let compiled: string | undefined;
await workAll();
rmSync(folder, { recursive: true, force: true });
if (compiled !== undefined) rmSync(compiled, { recursive: true });
if (failed.length > 0) console.log(`\nFailed:\n${failed.join("\n")}`);
times.sort((a, b) => b.seconds - a.seconds);
const slowest = times.slice(0, 3).map(({ file, seconds }) => `${path.relative(root, file)} ${seconds.toFixed(1)} s`);
const tookS = (performance.now() - started) / 1000;
const cpuS = times.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
console.log(
  `\n${files.length} files in ${tookS.toFixed(1)} s, ${cpuS.toFixed(1)} s of processor time; the slowest: ${slowest.join(", ")}`,
);
if (setUp.told.length > 0) console.log(`Made beside the first files: ${setUp.told.join(", ")}`);
if (!stop.signal.aborted) keepSeconds(Object.fromEntries(times.map(({ run, seconds }) => [run, seconds])));
if (process.env.SVC_TEST_TIMES) writeFileSync(process.env.SVC_TEST_TIMES, `${JSON.stringify(times)}\n`);
// Once more, each in a line: the end of a run may be all that is kept of it.
if (failed.length > 1) console.log(failed.map((text) => text.split("\n", 1)[0]).join("\n"));
const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
await setUp.end();

/** As many files at a time as keep the processors busy: some always, and others while processors wait, one each time it is seen. */
async function workAll(): Promise<void> {
  const processors = availableParallelism();
  const lane = async () => {
    for (let run = await take(); run !== undefined; run = await take()) await runNext(run);
  };
  const others = new Set<Promise<void>>();
  const idle = idleProcessors();
  const look = setInterval(() => {
    if (idle() < processors * IDLE_SHARE || others.size >= OTHERS_MAX * processors) return;
    if (process.availableMemory() < SPARE_BYTES) return;
    const run = takeReady();
    if (run === undefined) return;
    const other = runNext(run).finally(() => others.delete(other));
    others.add(other);
  }, LOOK_EVERY_MS);
  await Promise.all(Array.from({ length: processors + LANES_MORE }, lane));
  clearInterval(look);
  await Promise.all(others);
}

/** Says how many processors did nothing since it was asked last. One that waits for the disk does nothing either. */
function idleProcessors(): () => number {
  const sum = () => cpus().reduce((ms, { times }) => ms + times.user + times.nice + times.sys + times.irq, 0);
  let [last, at] = [sum(), performance.now()];
  return () => {
    const [before, since] = [last, at];
    [last, at] = [sum(), performance.now()];
    return cpus().length - (last - before) / (at - since);
  };
}

/** The next whose needs are met; undefined when there is none now. */
function takeReady(): Run | undefined {
  if (stop.signal.aborted) return undefined;
  const index = left.findIndex((run) => setUp.isReady(run.file, run));
  return index < 0 ? undefined : left.splice(index, 1)[0];
}

/** The same, as soon as there is one; undefined when none is left. */
async function take(): Promise<Run | undefined> {
  for (;;) {
    const run = takeReady();
    if (run !== undefined || left.length === 0 || stop.signal.aborted) return run;
    await Promise.race([setUp.next(), stopped]);
  }
}

async function runNext(run: Run): Promise<void> {
  const number = taken++;
  const { file, asUser, gateways } = run;
  const parts = [...(run.servers ? [setUp.servers] : []), ...(run.pods ? [setUp.pods] : [])];
  const missing = parts.find((part) => typeof part === "string");
  const env = Object.assign({}, ...parts.map((part) => (part as { env: object }).env), gateways ? GATEWAYS_ENV : {});
  const result =
    missing === undefined
      ? await ports.lend((own) => runOne(file, number, asUser, { ...env, ...own }))
      : skippedWhole(file, missing as string);
  times.push({ file, run: nameOf(run), seconds: result.seconds, cpuSeconds: result.cpuSeconds });
  tell(result, run);
}

function nameOf(run: Run): string {
  return path.relative(root, run.file) + howOf(run);
}

function howOf({ asUser, servers, gateways, pods }: Run): string {
  return `${asUser ? " (as an ordinary user)" : ""}${servers ? " (with servers)" : ""}${gateways ? " (through gateways)" : ""}${pods ? " (on Pods)" : ""}`;
}

function runOne(file: string, number: number, asUser: boolean, env: NodeJS.ProcessEnv): Promise<FileResult> {
  if (asUser) return runAsUser(file, number, env);
  return runFile(file, path.join(folder, String(number)), undefined, stop.signal, undefined, env);
}

function skippedWhole(file: string, reason: string): FileResult {
  const skipped = [{ name: path.relative(root, file), reason }];
  return { passed: 0, skipped, failures: [], seconds: 0, cpuSeconds: 0 };
}

async function runAsUser(file: string, number: number, env: NodeJS.ProcessEnv): Promise<FileResult> {
  // The folder of the other files is closed to that user.
  const own = mkdtempSync("/tmp/svc-u-");
  chmodSync(own, 0o755);
  try {
    compiled ??= sharedCompiled(process.env.NODE_COMPILE_CACHE!);
    const user = ordinaryUser(number, own, compiled);
    const reason = whyNot(user, file);
    if (reason === "") return await runFile(file, path.join(own, "f"), undefined, stop.signal, user, env);
    return skippedWhole(file, reason);
  } finally {
    await removeFolder(own);
  }
}

function tell(result: FileResult, run: Run): void {
  const how = howOf(run);
  counts.passed += result.passed;
  counts.skipped += result.skipped.length;
  counts.failed += result.failures.length;
  for (const { name, reason } of result.skipped) console.log(`skipped: ${name} (${reason})${how}`);
  for (const { file, name, text } of result.failures) {
    // Tests of a suite for several files lie in none of these.
    const of = file === run.file ? "" : ` of ${path.relative(root, run.file)}`;
    const title = `✗ ${path.relative(root, file)}${of}: ${name}${how}`;
    console.log(`${title}\n${text.replace(/^/gm, "    ")}`);
    failed.push(`${title}\n${text.split("\n", CAUSE_LINES).join("\n").replace(/^/gm, "    ")}`);
  }
}
