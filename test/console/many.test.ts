/** The console on a platform that holds much, in a real browser: what it draws and asks for is bounded by the screen. */
// May take 15 minutes.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Page, Response } from "playwright-core";
import { openBrowser } from "../browser.ts";
import { newJob } from "../conformance/queue.ts";
import { newEndpoint } from "../conformance/store.ts";
import { openStores } from "../control-plane/stores.ts";
import { startPlatform, type TestPlatform } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";

const ENDPOINTS = 1_000;
const JOBS = 100_000;
/** Jobs that are handed in at once. */
const TOGETHER = 2_000;
const DAY_MS = 86_400_000;
/** Of one endpoint, with an error each. */
const FAILED = 20;
/** Of an answer, when 1,000 endpoints are listed; a page of jobs takes a sixth. */
const ANSWER_MAX_BYTES = 300_000;
const ROWS_MAX = 100;

const idOf = (n: number) => `${String(n).padStart(8, "0")}-0000-7000-8000-000000000000`;

/** A data directory of much, filled by the platform's own stores while it is off. */
async function filled(t: TestContext): Promise<TestPlatform> {
  const platform = await startPlatform(t);
  await platform.kill();
  const stores = await openStores(platform.dataDir);
  const { store, queue } = stores;
  const endpoints = Array.from({ length: ENDPOINTS }, (_, n) => {
    const name = `endpoint-${String(n).padStart(4, "0")}`;
    return newEndpoint(null, { name, workersMin: 0, workersMax: 0, idleTimeout: 5, schedule: "" });
  });
  await store.transaction(async (inside) => {
    for (const endpoint of endpoints) await inside.endpoints.insert(endpoint);
  });
  const kept = { ttlMs: DAY_MS, retentionMs: DAY_MS };
  for (let from = 0; from < JOBS; from += TOGETHER) {
    const job = (_: unknown, n: number) =>
      newJob(endpoints[(from + n) % ENDPOINTS]!.id, { id: idOf(from + n), ...kept });
    await Promise.all(Array.from({ length: TOGETHER }, (...at) => queue.enqueue(job(...at))));
  }
  const claimed = await queue.claim(endpoints[7]!.id, "w", FAILED, new AbortController().signal);
  const failed = claimed.map((job, n) => queue.finish(job, { state: "FAILED", error: `ValueError: number ${n}` }));
  await Promise.all(failed);
  await stores.close();
  return platform.restart();
}

interface Asked {
  readonly document: string;
  readonly bytes: number;
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** What the page asks for by GraphQL, and how much it gets. */
function listen(page: Page): Asked[] {
  const asked: Asked[] = [];
  const note = async (response: Response) => {
    const request = response.request();
    if (!response.url().endsWith("/graphql")) return;
    const document = (request.postDataJSON() as { query: string }).query;
    const body = await response.body().catch(() => Buffer.alloc(0));
    const { startTime: from, responseEnd } = request.timing();
    asked.push({ document, bytes: body.length, from, to: from + responseEnd });
  };
  page.on("response", (response) => void note(response));
  return asked;
}

/** Fields that are lists of what happened: without an end they would be as long as the past. */
const LISTS = /\b(jobs|requests|decisions|deploys|audit|errorGroups)\(/g;

test("The console with 100,000 jobs and 1,000 endpoints", { timeout: 900_000 }, async (t) => {
  const browser = await openBrowser(t);
  if (browser === undefined) return;
  const platform = await filled(t);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  const asked = listen(page);
  const { stdout, stderr } = await platform.svc(["console", "--json"]);
  assert.notEqual(stdout, "", stderr);
  await page.goto((JSON.parse(stdout) as { url: string }).url);
  await page
    .getByRole("link", { name: /endpoint-0/ })
    .first()
    .waitFor();
  const go = (hash: string) =>
    page.evaluate((to) => {
      location.hash = to;
    }, hash);
  const rows = page.locator("tr[data-row]");
  const drawn = async () => {
    const count = await rows.count();
    assert.ok(count <= ROWS_MAX, `${count} rows are drawn`);
  };
  const found = (text: string | RegExp) => page.getByText(text).first().waitFor();

  await t.test("every page is drawn, and is bounded", async () => {
    for (const [hash, text] of [
      ["#/capacity", /promised/],
      ["#/endpoints", "1,000 endpoints"],
      ["#/requests", "No request fits."],
      ["#/errors", /ValueError|No failure|Nothing/],
      ["#/logs", "Nothing was printed yet."],
      ["#/deploys", /Nothing was deployed yet/],
      ["#/audit", /console.login/],
      ["#/jobs", idOf(JOBS - 1).slice(0, 8)],
    ] as const) {
      await go(hash);
      await found(text);
      await drawn();
    }
  });

  await t.test("a list of jobs goes on as it is scrolled, a screen of it drawn", async () => {
    const length = async () => Number(await page.getByRole("table", { name: "Jobs" }).getAttribute("aria-rowcount"));
    for (let pages = 2; pages <= 6; pages++) {
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      await eventually(async () => assert.ok((await length()) > (pages - 1) * 100), 120_000);
      await drawn();
    }
    const text = await rows.last().innerText();
    await page.evaluate(() => scrollTo(0, 0));
    await eventually(async () => assert.notEqual(await rows.last().innerText(), text));
    await drawn();
  });

  await t.test("one of them is found by its id, its endpoint, its state, and the text of its error", async () => {
    await go(`#/jobs?id=${idOf(54_321).slice(0, 8)}`);
    await page.getByTitle(idOf(54_321)).waitFor();
    assert.equal(await rows.count(), 1);
    await go("#/jobs?error=number%2013");
    await found("number 13");
    assert.equal(await rows.count(), 1);
    await go("#/jobs?state=FAILED");
    await found("number 19");
    assert.equal(await rows.count(), FAILED);
    await page.getByRole("combobox", { name: "Endpoint" }).selectOption({ label: "endpoint-0008" });
    await found("No job fits.");
    await go("#/endpoints");
    await page.getByRole("searchbox", { name: "Name" }).fill("0999");
    await found("1 endpoint");
    await page.getByRole("link", { name: "endpoint-0999" }).click();
    await page.getByRole("heading", { name: "endpoint-0999" }).waitFor();
  });

  await t.test(
    "while workers come and go all the time, the list of all endpoints rests longer than it took",
    async () => {
      await go("#/");
      await found("all 1,000");
      const isList = ({ document }: Asked) => document.includes("endpoints {") && document.includes("pods");
      const before = asked.filter(isList).length;
      const began = performance.now();
      const made = `{ name: "restless", workersMin: 0, workersMax: 0, instanceIds: "cpu3c-1-2", template: { name: "restless", imageName: "svc/worker-cpu:latest" } }`;
      const save = (input: string) =>
        platform.query<{ saveEndpoint: { id: string } }>(`mutation { saveEndpoint(input: ${input}) { id } }`);
      const { id } = (await save(made)).saveEndpoint;
      // An endpoint that changes is told to the page at once.
      for (let n = 0; asked.filter(isList).length < before + 4; n++) {
        await save(`{ id: "${id}", name: "restless", idleTimeout: ${5 + (n % 50)} }`);
        assert.ok(performance.now() - began < 300_000, "the list is never asked for again");
      }
      const took = asked.filter(isList).slice(before);
      for (const [n, { from, to }] of took.slice(0, -1).entries()) {
        const rest = took[n + 1]!.from - to;
        assert.ok(
          rest > Math.min(9_000, 4 * (to - from)),
          `a list took ${to - from} ms, the next one came ${rest} ms later`,
        );
      }
    },
  );

  await t.test("no answer is long, and nothing that grows is asked for without a limit", () => {
    for (const { document, bytes } of asked) {
      assert.ok(bytes <= ANSWER_MAX_BYTES, `${bytes} bytes: ${document}`);
      const lists = document.match(LISTS) ?? [];
      assert.equal(document.match(/\bfirst: \d+/g)?.length ?? 0, lists.length, document);
    }
    assert.ok(asked.length > 20);
  });
  assert.deepEqual(problems, []);
});
