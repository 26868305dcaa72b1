// May take 15 minutes.
/** The documentation's site as it is built and read: in a real browser, from plain files. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { SIDEBAR } from "../../docs/.vitepress/sidebar.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { openBrowser, openPage } from "../browser.ts";
import { ROOT } from "../e2e/platform.ts";

const DIST = path.join(ROOT, "docs/.vitepress/dist");
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".png": "image/png",
  ".json": "application/json",
};

/** Any server of files will do: this one has no rules but paths. */
async function serve(t: TestContext): Promise<string> {
  const server = createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url!, "http://a").pathname).replace(/\/$/, "/index.html");
    const file = path.join(DIST, path.normalize(name));
    const found = file.startsWith(DIST) && existsSync(file);
    const type = TYPES[path.extname(name)] ?? "text/plain";
    // What is named for its contents: a browser keeps it, and what it made of it.
    const kept = name.startsWith("/assets/") ? { "cache-control": "max-age=3600" } : {};
    response.writeHead(found ? 200 : 404, { "content-type": type, ...kept });
    response.end(found ? readFileSync(file) : "not found");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("make docs builds a site: its search finds, its dark switch works, every page opens without an error", {
  timeout: 840_000,
}, async (t) => {
  const { code, stdout, stderr } = await runProcess("make", ["docs"], { cwd: ROOT });
  if (code !== 0 && /npm error (code E(?!USAGE)|network)/.test(stderr)) return t.skip("no registry of packages here");
  assert.equal(code, 0, stdout + stderr);
  const browser = await openBrowser(t);
  if (browser === undefined) return;
  const origin = await serve(t);

  await t.test("search finds a page by an error code, and leads there", async () => {
    const { page, problems } = await openPage(browser, origin);
    await page.goto(`${origin}/`);
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByPlaceholder("Search").fill("BODIES_FULL");
    // By its address: what is shown beside other results may speak of errors too.
    await page.locator('.VPLocalSearchBox .result[href*="/reference/errors"]').first().click();
    await page.waitForURL(/\/reference\/errors\.html/);
    assert.equal(await page.locator("tr#BODIES_FULL").count(), 1, "each code has an anchor");
    assert.deepEqual(problems, []);
  });

  await t.test("the dark switch darkens the page, and stays", async () => {
    const { page, problems } = await openPage(browser, origin);
    await page.goto(`${origin}/start/concepts.html`);
    const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const light = await background();
    await page.locator(".VPNavBar .VPSwitchAppearance").first().click();
    await page.waitForFunction("document.documentElement.classList.contains('dark')");
    assert.notEqual(await background(), light);
    await page.reload();
    assert.notEqual(await background(), light);
    assert.equal(await page.locator(".diagram svg").count(), 1);
    assert.deepEqual(problems, []);
  });

  await t.test("every page opens at the width of a telephone, no wider than it, and asks nobody else", async () => {
    const { page, problems } = await openPage(browser, origin, { width: 390, height: 844, scheme: "dark" });
    // A page that is left at once needs none of those that it links to.
    await page.addInitScript("Object.defineProperty(navigator, 'connection', { value: { saveData: true } })");
    for (const link of new Set(SIDEBAR.flatMap(({ items }) => items.map((item) => item.link.split("#")[0]!)))) {
      const name = link.replace(/\/README$/, "/index");
      await page.goto(`${origin}${name}.html`);
      await page.locator("main h1").first().waitFor();
      await page.waitForFunction("document.querySelector('#app').__vue_app__ !== undefined");
      assert.equal(await page.evaluate("document.documentElement.scrollWidth"), 390, name);
    }
    assert.deepEqual(problems, []);
  });
});

test("The site's lock file holds no download addresses", () => {
  assert.doesNotMatch(readFileSync(path.join(ROOT, "docs/package-lock.json"), "utf8"), /"resolved"/);
});
