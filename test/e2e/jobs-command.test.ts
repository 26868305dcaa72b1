import assert from "node:assert/strict";
import { once as listening } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { shortJobId } from "../../src/domain/job.ts";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { eventually } from "../eventually.ts";
import { ownMachineOnly } from "../pods.ts";
import { project, startPlatform } from "./platform.ts";

const SVC = path.join(import.meta.dirname, "../../bin/svc");
const WORKER = `
import time
from svc import Endpoint

@Endpoint(name="divide", workers=(0, 1))
def divide(a, b, seconds=0):
    time.sleep(seconds)
    return {"quotient": a / b}

@Endpoint(name="show", workers=(0, 1))
def show():
    return 1
`;

test("svc jobs lists an endpoint's jobs; show, output, retry and cancel look after one", {
  skip: ownMachineOnly("a table of machines is shown below the jobs' too"),
}, async (t) => {
  const platform = await startPlatform(t, {
    SVC_RUN_RETENTION_S: "1",
    SVC_RUNSYNC_RETENTION_S: "600",
    SVC_WEBHOOK_PRIVATE: "1",
  });
  const cwd = project(t, { "worker.py": WORKER });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const endpoints = await platform.endpoints();
  const { url } = endpoints.find(({ name }) => name === "divide")!;
  const runsync = async (input: object) => (await platform.call(`${url}/runsync`, { body: { input } })).json;
  const jobs = (...args: string[]) => platform.svc(["jobs", ...args], { cwd });
  const gone = (await platform.call(`${url}/run`, { body: { input: { a: 8, b: 2 } } })).json;
  const good = await runsync({ a: 6, b: 3 });
  const bad = await runsync({ a: 1, b: 0 });

  const list = await jobs("divide");
  assert.equal(list.code, 0, list.stderr);
  const [head, first, second] = list.stdout.split("\n");
  assert.match(head!, /^JOB +STATUS +AGE +WAITED +RAN +ERROR/);
  assert.match(
    first!,
    new RegExp(`^${shortJobId(bad.id)} +FAILED +\\d+ s .* ms .*ZeroDivisionError: division by zero`),
  );
  assert.match(second!, new RegExp(`^${shortJobId(good.id)} +COMPLETED`));
  assert.match(
    list.stderr,
    /Results are kept 1 s \(\/run\), 10 min \(\/runsync\), .*; failed jobs 24 h\. The list keeps jobs for 7 d more\./,
  );
  const wide = await jobs("divide", "--wide");
  assert.match(
    wide.stdout,
    new RegExp(`^JOB .*SUBMITTED .*WORKER +ERROR\n${bad.id} +FAILED +\\d+ s +20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d`),
  );

  // The beginning of an id is enough where only one job has it, in every command.
  assert.match((await jobs("show", shortJobId(bad.id))).stdout, new RegExp(`^job +${bad.id}\n[^]*submitted +\\d{4}-`));
  assert.deepEqual(JSON.parse((await jobs("output", shortJobId(good.id))).stdout), { quotient: 2 });
  const several = await jobs("show", "0");
  assert.equal(several.code, 2);
  for (const id of [bad.id, good.id]) assert.ok(several.stderr.includes(`${id}  divide`), several.stderr);

  const failed = JSON.parse((await jobs("divide", "--status", "failed", "--json")).stdout);
  assert.deepEqual(
    failed.map((job: { id: string; input: object }) => [job.id, job.input]),
    [[bad.id, { a: 1, b: 0 }]],
  );
  const one = await jobs("divide", "--limit", "1");
  assert.match(one.stderr, /There are more/);

  const show = await jobs("show", bad.id);
  assert.match(show.stdout, /ZeroDivisionError: division by zero\n.*worker\.py.*"b": 0/s);
  assert.equal(JSON.parse((await jobs("show", good.id, "--json", "--endpoint", "divide")).stdout).output.quotient, 2);
  assert.deepEqual(JSON.parse((await jobs("output", good.id)).stdout), { quotient: 2 });
  const none = await jobs("output", bad.id);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no output: it is FAILED: ZeroDivisionError/);

  const retry = await jobs("retry", shortJobId(bad.id));
  assert.equal(retry.stdout, `${bad.id} is back in the queue.\n`);
  await platform.call(`${url}/status-sync/${bad.id}?wait=10000`);
  const refused = await jobs("retry", good.id);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /COMPLETED; only FAILED and TIMED_OUT/);

  const slow = (await platform.call(`${url}/run`, { body: { input: { a: 1, b: 1, seconds: 600 } } })).json;
  assert.equal((await jobs("cancel", slow.id)).stdout, `${slow.id} is cancelled.\n`);
  assert.match((await jobs("cancel", slow.id)).stdout, /was CANCELLED already/);

  // The result of the first job was kept for a second: what is left of it is told, and that the rest is gone.
  const left = async () => (await jobs("show", gone.id)).stdout;
  await eventually(async () =>
    assert.match(await left(), /^status +COMPLETED$.*^result +not kept any more, and neither/ms),
  );
  assert.match(await left(), /^submitted +\d{4}-/m);
  assert.match((await jobs("show", shortJobId(gone.id))).stdout, new RegExp(`^job +${gone.id}\n`));
  for (const word of ["output", "retry"]) {
    const { code, stderr } = await jobs(word, gone.id);
    assert.deepEqual(
      [code, stderr.split("\n")[0]],
      [1, "error: The job ended COMPLETED; its input and result are not kept any more."],
    );
  }
  assert.match((await jobs("cancel", gone.id)).stdout, /was COMPLETED already/);
  assert.match(
    (await jobs("divide")).stdout,
    new RegExp(`^${shortJobId(gone.id)} +COMPLETED .* result not kept$`, "m"),
  );

  // On a terminal of 80 columns no line is wider.
  const onTerminal = async (...args: string[]) => {
    const terminal = openPseudoTerminal([SVC, "jobs", ...args], {
      cwd,
      env: {
        PATH: process.env.PATH ?? "",
        HOME: process.env.HOME ?? "",
        PLATFORM_URL: platform.url,
        PLATFORM_API_KEY: platform.key,
      },
    });
    t.after(() => terminal.close());
    assert.equal(await terminal.ended, 0);
    return terminal;
  };
  const terminal = await onTerminal("divide");
  assert.match(terminal.text, /^JOB +STATUS +AGE/m);
  for (const line of terminal.text.split("\n").slice(0, 4)) assert.ok(line.trimEnd().length <= 80, line);
  assert.doesNotMatch((await onTerminal("--wide")).text, /…/, "with --wide nothing is cut");

  // All endpoints in one list, found by what is known of them.
  const every = await jobs();
  assert.match(every.stdout, /^JOB +ENDPOINT +STATE +AGE +WAITED +RAN +ERROR\n/);
  assert.equal(every.stdout.trimEnd().split("\n").length, 5, every.stdout);
  const ids = async (...args: string[]) =>
    JSON.parse((await jobs(...args, "--json")).stdout).map(({ id }: { id: string }) => id);
  assert.deepEqual(await ids("--state", "cancelled"), [slow.id]);
  assert.deepEqual(await ids("--error", "division BY zero"), [bad.id]);
  assert.deepEqual(await ids("--error", ".*"), [], "plain text, no pattern");
  assert.deepEqual(await ids("divide", "--id", good.id.slice(0, -3)), [good.id]);
  assert.deepEqual((await ids("--since", "1h")).length, 4);
  const groups = await jobs("errors", "divide");
  assert.match(
    groups.stdout,
    /^divide +2 +\d+ (s|min) ago +.*worker\.py:\d+ in divide +ZeroDivisionError: division by zero/m,
  );

  // Who did what; a killed platform knows of every act that it answered.
  assert.equal((await platform.svc(["secret", "set", "TOKEN", "--app", "app"], { cwd, input: "hunter2" })).code, 0);
  await platform.kill();
  const again = await platform.restart();
  const audit = await again.svc(["audit"], { cwd });
  assert.match(audit.stdout, /^\d{4}-.* secret\.set +app\/production\/TOKEN +made$/m, audit.stderr);
  assert.match(audit.stdout, /build\.deploy +app\/production/);
  assert.ok(!audit.stdout.includes("hunter2"));
  assert.deepEqual(JSON.parse((await again.svc(["audit", "--action", "nothing", "--json"], { cwd })).stdout), []);
  const decisions = await again.svc(["status", "divide", "--why"], { cwd });
  assert.match(decisions.stdout, /must show that it starts/, "decisions are kept over the restart");

  // A webhook that is told when something is wrong.
  const hook = createServer((req, res) => {
    assert.match(String(req.headers["x-svc-signature"]), /^t=\d+,v1=[0-9a-f]{64}$/);
    res.writeHead(req.url === "/hook?token=secret" ? 204 : 404).end();
  }).listen(0, "127.0.0.1");
  await listening(hook, "listening");
  t.after(() => hook.close());
  const base = `http://127.0.0.1:${(hook.address() as AddressInfo).port}`;
  const alert = (...args: string[]) => again.svc(["alert", ...args], { cwd });
  const made = await alert(
    "create",
    "wait.oldest",
    `${base}/hook?token=secret`,
    "--endpoint",
    "divide",
    "--threshold",
    "30",
  );
  assert.equal(made.code, 0, made.stderr);
  const listed = await alert("list");
  assert.match(
    listed.stdout,
    new RegExp(`^${made.stdout.trim()} +wait\\.oldest +30 s +divide +quiet +- +- +${base}/…$`, "m"),
  );
  assert.ok(!listed.stdout.includes("secret"));
  assert.equal((await alert("test", made.stdout.trim())).stdout, "The test message was delivered.\n");
  const lost = (await alert("create", "disk.full", `${base}/other`)).stdout.trim();
  assert.match((await alert("test", lost)).stderr, /was not delivered: answered 404\./);
  assert.equal((await alert("remove", lost)).code, 0);
  assert.match((await alert("remove", lost)).stderr, /There is no alert/);
  for (const [wrong, message] of [
    [["on.fire", base], /no kind of alert: one of endpoint\.blocked/],
    [["disk.full", "file:///etc/passwd"], /http or https URL/],
    [["errors.rate", base, "--threshold", "101"], /at most 100/],
    [["disk.full", base, "--endpoint", "divide"], /whole platform/],
  ] as const) {
    const { code, stderr } = await alert("create", ...wrong);
    assert.notEqual(code, 0);
    assert.match(stderr, message);
  }

  // At a glance: once without a terminal, and on the whole screen of one, which is given back.
  const once = await again.svc(["top"], { cwd });
  assert.match(once.stdout, /^ENDPOINT +STATE +WORKERS +WAIT +RUN +P50 +P95 +FAIL$/m);
  assert.match(once.stdout, /^app\/production\n {2}divide +READY +\d\/0-1 +0 +0 /m);
  const { endpoints: seen, decisions: why } = JSON.parse((await again.svc(["top", "--json"], { cwd })).stdout);
  assert.deepEqual([seen.length, why.length > 0], [2, true]);
  const screen = (rows: number) =>
    openPseudoTerminal([SVC, "top"], {
      cwd,
      rows,
      env: { PATH: process.env.PATH!, HOME: process.env.HOME!, PLATFORM_URL: again.url, PLATFORM_API_KEY: again.key },
    });
  const wideTop = screen(24);
  t.after(() => wideTop.close());
  await wideTop.shows(/q ends/);
  const frame = wideTop.text.split("\n").map((line) => line.trimEnd());
  for (const line of frame) assert.ok(line.length <= 80, line);
  wideTop.resize(60, 24);
  // Its head is cut at the new width.
  await wideTop.shows(/^ENDPOINT.{52}$/m);
  wideTop.type("q");
  assert.equal(await wideTop.ended, 0);
  const low = screen(6);
  t.after(() => low.close());
  await low.shows(/scroll, 1-1 of 3/);
  low.type("j");
  await low.shows(/scroll, 2-2 of 3/);
  low.type(CTRL_C);
  assert.equal(await low.ended, 130);
  for (const { raw } of [wideTop, low]) {
    assert.ok(raw.lastIndexOf("\x1b[?1049l") > raw.lastIndexOf("\x1b[?1049h"), "the screen is what it was");
    assert.ok(raw.lastIndexOf("\x1b[?25h") > raw.lastIndexOf("\x1b[?25l"), "and has its cursor");
  }

  const unknown = await jobs("show", "nothing");
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /No endpoint has a job "nothing"/);
  assert.match((await jobs("divid")).stderr, /Did you mean divide\?/);
  assert.match((await jobs("list", "show")).stderr, /show \(app\/production\) has no jobs/);
  assert.equal((await jobs("divide", "--status", "LOST")).code, 2);
});
