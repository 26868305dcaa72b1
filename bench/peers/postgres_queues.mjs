/**
 * Queues on PostgreSQL that are libraries for Node, as their guides set them up for many short jobs: one process submits from 64
 * places at once and works. For each number of jobs on stdin: the seconds until none is open. Arguments: package, folder, URL.
 */
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [name, folder, url] = process.argv.slice(2);
const load = (what) => import(pathToFileURL(createRequire(`${folder}/package.json`).resolve(what)).href);
const SUBMITTERS = 64;
const DATA = { text: "x".repeat(80) };
const pg = (await load("pg")).default;
const database = new pg.Client(url);
await database.connect();

async function pgBoss() {
  const { PgBoss } = await load("pg-boss");
  const boss = new PgBoss({ connectionString: url, max: 10 });
  boss.on("error", () => {});
  await boss.start();
  await boss.createQueue("echo");
  const options = { batchSize: 64, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
  await boss.work("echo", options, async () => DATA);
  const open = "SELECT 1 FROM pgboss.job WHERE name = 'echo' AND state < 'completed' LIMIT 1";
  return { submit: () => boss.send("echo", DATA), open };
}

async function graphileWorker() {
  const { makeWorkerUtils, run } = await load("graphile-worker");
  const utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: 10 });
  await utils.migrate();
  const quiet = new (await load("graphile-worker")).Logger(() => () => {});
  await run({
    ...{ connectionString: url, concurrency: 64, maxPoolSize: 10, noHandleSignals: true, logger: quiet, crontab: "" },
    taskList: { echo: async () => {} },
    preset: { worker: { localQueue: { size: 256 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
  });
  return { submit: () => utils.addJob("echo", DATA), open: "SELECT 1 FROM graphile_worker.jobs LIMIT 1" };
}

const { submit, open } = await { "pg-boss": pgBoss, "graphile-worker": graphileWorker }[name]();
console.log("{}");
for await (const line of createInterface(process.stdin)) {
  let left = Number(line);
  const began = performance.now();
  const submitter = async () => {
    while (left-- > 0) await submit();
  };
  await Promise.all(Array.from({ length: SUBMITTERS }, submitter));
  while ((await database.query(open)).rows.length > 0) await delay(10);
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000 }));
}
process.exit(0);
