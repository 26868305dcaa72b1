/** A real browser for tests: the machine's own Chromium, without a window. */
import { existsSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { type Browser, chromium, type Page } from "playwright-core";
import { aptInstall } from "./apt-install.ts";
import { testLog } from "./harness/test-logs.ts";

/** The first has no window to draw, which takes a fifth less processor time. */
const PLACES = [
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/snap/bin/chromium",
];

/**
 * Names lead nowhere but to this machine. To look at each request and refuse it would have the browser keep nothing of a page for
 * the next one: half of the processor time of a test that opens many.
 */
const HERE_ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost";

/**
 * A container's or a node's network that comes or goes is a change of the machine's addresses, at which Chromium fails requests that wait for a
 * connection (ERR_NETWORK_CHANGED), also those to 127.0.0.1. So it does not hear of them.
 */
const WITHOUT_NETLINK = path.join(import.meta.dirname, "without-netlink.py");

/** For what a page shows at once on a quiet machine. */
const PATIENCE_MS = 120_000;
/** What pages show at the end goes to the log of a test. */
const LAST_LOOK_MS = 2_000;
const LAST_LOOK_CHARS = 1_000;

/** Skips the test, saying why, on a machine that has no Chromium and cannot install it. */
export async function openBrowser(t: TestContext): Promise<Browser | undefined> {
  const executablePath = await findChromium();
  if (executablePath === undefined) {
    t.skip("no Chromium on this machine, and only root can install it (apt-get install chromium)");
    return undefined;
  }
  const args = ["--no-sandbox", "--disable-gpu", HERE_ALONE];
  const env = { ...process.env, SVC_TEST_PROGRAM: executablePath } as Record<string, string>;
  const browser = await chromium.launch({ executablePath: WITHOUT_NETLINK, args, env });
  const kept = testLog("browser");
  t.after(async () => {
    for (const page of browser.contexts().flatMap((context) => context.pages())) {
      const text = await page.innerText("body", { timeout: LAST_LOOK_MS }).catch(String);
      kept(`${page.url()} shows: ${text.slice(0, LAST_LOOK_CHARS).replaceAll(/\s+/g, " ")}\n`);
    }
    await browser.close();
  });
  // browser.newPage asks it, too.
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(PATIENCE_MS);
    context.on("requestfailed", (request) => {
      kept(`${request.method()} ${request.url()} failed: ${request.failure()?.errorText}\n`);
    });
    context.on("response", (response) => {
      if (response.status() >= 400) kept(`${response.request().method()} ${response.url()}: ${response.status()}\n`);
    });
    return context;
  };
  return browser;
}

/** Installs it when it is missing and that can be done. */
export async function findChromium(): Promise<string | undefined> {
  const found = () => PLACES.find((place) => existsSync(place));
  for (const name of ["chromium-headless-shell", "chromium"]) {
    if (found() === undefined) await aptInstall(name);
  }
  return found();
}

export interface WatchedPage {
  readonly page: Page;
  /** What went wrong in the page: errors of its console, of its scripts, and requests that left `origin`. */
  readonly problems: string[];
}

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly scheme?: "light" | "dark";
}

/** A new page that may talk to `origin` alone: anything else fails and is told. */
export async function openPage(browser: Browser, origin: string, options: PageOptions = {}): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 900 },
    colorScheme: options.scheme ?? "light",
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && url.protocol.startsWith("http")) problems.push(`request to ${url}`);
  });
  return { page, problems };
}
