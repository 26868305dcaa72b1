import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Browser } from "playwright-core";
import { openBrowser, openPage, type WatchedPage } from "../browser.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";

interface Login {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
}

async function post<T>(url: string, fields: Record<string, string>): Promise<T> {
  return (await fetch(url, { method: "POST", body: new URLSearchParams(fields) })).json() as Promise<T>;
}

function openLogin(platform: TestPlatform, machine: string): Promise<Login> {
  return post(`${platform.url}/device/code`, { machine });
}

function poll(platform: TestPlatform, device_code: string): Promise<{ access_token?: string; error?: string }> {
  return post(`${platform.url}/device/token`, { grant_type: GRANT_TYPE, device_code });
}

async function start(t: TestContext): Promise<{ browser: Browser; platform: TestPlatform } | undefined> {
  const browser = await openBrowser(t);
  return browser && { browser, platform: await startPlatform(t) };
}

/** Nothing wider than the window, and everything in the window that is asked for. */
async function fits({ page }: WatchedPage): Promise<boolean> {
  return page.evaluate("document.documentElement.scrollWidth <= innerWidth");
}

test("a login is approved in a browser: code, machine and rights are seen, a wrong key is told", async (t) => {
  const on = await start(t);
  if (on === undefined) return;
  const { browser, platform } = on;
  for (const options of [
    { width: 1280, scheme: "light" },
    { width: 360, height: 720, scheme: "dark" },
  ] as const) {
    const login = await openLogin(platform, `anna's <b>laptop</b> ${options.scheme}`);
    const watched = await openPage(browser, platform.url, options);
    const { page, problems } = watched;
    await page.goto(login.verification_uri_complete);
    assert.equal(await page.title(), "Approve a login · svc");
    assert.equal(await page.locator(".code").textContent(), login.user_code);
    assert.equal(
      await page.locator("h1").textContent(),
      `Let “anna's <b>laptop</b> ${options.scheme}” use this platform?`,
    );
    assert.deepEqual(await page.locator("dd li b").allTextContents(), ["deploy", "invoke"]);
    assert.ok(await fits(watched));

    // The style is applied although the policy allows none but this one.
    const key = page.getByLabel("Your API key");
    assert.equal(
      await key.evaluate((input) => input.ownerDocument.defaultView!.getComputedStyle(input).borderRadius),
      "8px",
    );
    assert.ok(await key.evaluate((input) => input.ownerDocument.activeElement === input), "typing starts there");
    await key.fill("svc_wrong");
    await page.getByRole("button", { name: "Approve" }).click();
    assert.match((await page.getByRole("alert").textContent())!, /unknown, revoked or expired/);
    assert.match(problems.splice(0).join(), /^console: [^,]*status of 403[^,]*$/, "said by the browser itself");
    assert.deepEqual(await poll(platform, login.device_code), { error: "authorization_pending" });

    await page.getByLabel("Your API key").fill(platform.adminKey);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Approved" }).waitFor();
    assert.match((await poll(platform, login.device_code)).access_token ?? "", /^svc_/);
    assert.ok(!(await page.content()).includes("svc_"), "no key stands in the page");
    assert.deepEqual(problems, []);
    await page.context().close();
  }
});

test("a code is typed as it is read, and a login can be denied in a browser", async (t) => {
  const on = await start(t);
  if (on === undefined) return;
  const { browser, platform } = on;
  const login = await openLogin(platform, "a stranger");
  const watched = await openPage(browser, platform.url, { width: 360, height: 720 });
  const { page, problems } = watched;
  await page.goto(login.verification_uri);
  assert.ok(await fits(watched));
  await page.getByLabel("Code").fill("BBBB-BBBB");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("alert").waitFor();
  assert.match(problems.splice(0).join(), /^console: [^,]*status of 404[^,]*$/, "said by the browser itself");

  await page.getByLabel("Code").fill(login.user_code.toLowerCase().replace("-", " "));
  await page.keyboard.press("Enter");
  await page.getByLabel("Your API key").fill(platform.adminKey);
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByRole("heading", { name: "Denied" }).waitFor();
  assert.deepEqual(await poll(platform, login.device_code), { error: "access_denied" });
  assert.deepEqual(problems, []);
});
