/** The console in a real browser, against a real platform with deployed endpoints. */
// May take 18 minutes.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { openBrowser } from "../browser.ts";
import { project, startPlatform, type TestPlatform } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";

const MARKUP = `<img src=x onerror="document.title='hit'">`;

const QUEUED = `import os
from svc import Endpoint

@Endpoint(name="greet", cpu="cpu3c-1-2", workers=(0, 2))
def greet(name: str = "world"):
    """Greets."""
    print(f"greeting {name}")
    return {"message": f"hello {name}"}


@Endpoint(name="broken", cpu="cpu3c-1-2", workers=(0, 1))
def broken(text: str, mended: str = "/nowhere"):
    print(text)
    if not os.path.exists(mended):
        raise ValueError(text)
    return "mended"
`;

const ROUTES = `from svc import Endpoint

api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(0, 2), max_concurrency=8)


@api.get("/items/{item_id}")
def item(item_id: int = 7):
    return {"item": item_id}


@api.post("/orders")
def order(customer: str):
    raise KeyError("no such product")
`;

/** An endpoint that is everybody's and hostile: its page has the console's origin, and asks for what it must not get. */
const HOSTILE = `import json
from svc import Endpoint

web = Endpoint(name="web", cpu="cpu3c-1-2", workers=(0, 1), max_concurrency=16, public=True)
HEADERS = [
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"service-worker-allowed", b"/"),
    (b"set-cookie", b"svc_console_1=taken; Path=/"),
    (b"set-cookie", b"theme=dark; Path=/"),
]


async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    kind, body = b"text/html", b"<!doctype html><title>hostile</title>"
    if scope["path"].endswith("/worker.js"):
        kind, body = b"text/javascript", b"onfetch = () => {}"
    if scope["path"].endswith("/seen"):
        seen = {name.decode(): value.decode() for name, value in scope["headers"]}
        kind, body = b"application/json", json.dumps(seen).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *HEADERS]})
    await send({"type": "http.response.body", "body": body})


web.asgi(application)
`;

interface Site {
  readonly platform: TestPlatform;
  readonly browser: Browser;
  readonly folder: string;
  readonly ids: Readonly<Record<string, string>>;
}

interface Opened {
  readonly context: BrowserContext;
  readonly page: Page;
  /** Errors of the page's console and scripts, but for requests that the platform refused or did not get. */
  readonly problems: string[];
}

async function linkOf(platform: TestPlatform, key = platform.key): Promise<string> {
  const { stdout, stderr, code } = await platform.svc(["console", "--json"], { env: { PLATFORM_API_KEY: key } });
  assert.equal(code, 0, stderr);
  return (JSON.parse(stdout) as { url: string }).url;
}

interface Look {
  readonly key?: string;
  readonly width?: number;
  readonly scheme?: "light" | "dark";
}

/** A browser of its own, let in by a link. */
async function open({ browser, platform }: Site, { key, width = 1280, scheme = "light" }: Look = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    const isRefusal = message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isRefusal) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  await page.goto(await linkOf(platform, key));
  await page.locator("main#main").waitFor();
  return { context, page, problems };
}

const go = async (page: Page, hash: string) => {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
};

async function jobOf({ platform, ids }: Site, endpoint: string, input: object): Promise<string> {
  const { json } = await platform.call(`/v2/${ids[endpoint]}/runsync`, { body: { input } });
  return json.id;
}

async function prepared(t: TestContext): Promise<Site | undefined> {
  const browser = await openBrowser(t);
  if (browser === undefined) return undefined;
  const platform = await startPlatform(t);
  const folder = project(t, { "queued.py": QUEUED, "routes.py": ROUTES, "hostile.py": HOSTILE }, "shop");
  const deployed = await platform.svc(["deploy", "--message", `first ${MARKUP}`], { cwd: folder });
  assert.equal(deployed.code, 0, deployed.stderr);
  const ids = Object.fromEntries((await platform.endpoints()).map(({ name, id }) => [name, id]));
  return { platform, browser, folder, ids };
}

test("The console in a browser", { timeout: 1_060_000 }, async (t) => {
  const site = await prepared(t);
  if (site === undefined) return;
  const { platform, ids, browser, folder } = site;
  const { page, problems } = await open(site);

  await t.test(
    "a link leads to the overview, leaves nothing in the address, and lets no second browser in",
    async () => {
      assert.equal(page.url(), `${platform.url}/`);
      await page.getByRole("link", { name: "greet", exact: true }).first().waitFor();
      assert.equal(await page.title(), "Overview · svc");
      const link = await linkOf(platform);
      const [first, second] = [await browser.newContext(), await browser.newContext()];
      const [one, other] = [await first.newPage(), await second.newPage()];
      await one.goto(link);
      await one.locator("main#main").waitFor();
      await other.goto(link);
      await other.getByText("This link does not work: it was used").waitFor();
      await other.goto(platform.url);
      await other.getByText("has no session here").waitFor();
      await Promise.all([first.close(), second.close()]);
    },
  );

  await t.test("a call from an endpoint's page shows what came back and the parts of its cold start", async () => {
    await go(page, `#/endpoint/${ids.greet}?last=10m`);
    await page.getByRole("heading", { name: "greet", exact: true }).waitFor();
    const input = page.getByLabel("Input, as JSON");
    assert.deepEqual(JSON.parse(await input.inputValue()), { name: "world" });
    await input.fill('{"name": ');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByText("This is no JSON").waitFor();
    await input.fill(JSON.stringify({ name: MARKUP }));
    await page.getByRole("button", { name: "Call", exact: true }).click();
    const outcome = page.locator(".outcome");
    await outcome.getByText("COMPLETED").waitFor();
    assert.match((await outcome.locator('pre[aria-label="Output"]').textContent())!, /hello <img src=x/);
    assert.match((await outcome.getByRole("group").textContent())!, /waited [\d.]+ m?s.*ran/s);
    await page.getByLabel("Workers", { exact: true }).getByText("fork").first().waitFor();
    await page
      .getByText(/a new revision must show that it starts|1 waiting/)
      .first()
      .waitFor();
  });

  await t.test("a route of a load-balanced endpoint is called with its path", async () => {
    await go(page, `#/endpoint/${ids.api}`);
    await page.getByRole("combobox", { name: "Route" }).selectOption("GET /items/1");
    await page.getByLabel("Path and query").fill("/items/42");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".outcome").getByText('"item": 42').waitFor();
    await go(page, `#/requests?endpoint=${ids.api}`);
    await page.getByText("/items/42").first().waitFor();
  });

  await t.test("a job is found, shown whole, and what it says is text wherever it stands", async () => {
    const job = await jobOf(site, "broken", { text: MARKUP });
    await go(page, `#/jobs?state=FAILED&error=onerror`);
    await page.getByRole("link", { name: job.slice(0, 18) }).click();
    await page.getByRole("heading", { name: job }).waitFor();
    await page.locator(".failure").getByText("ValueError").first().waitFor();
    await page.locator(".log").getByText("<img src=x").first().waitFor();
    await page.getByText("began on worker").waitFor();
    assert.match((await page.locator('pre[aria-label="Input"]').textContent())!, /<img src=x/);
    for (const hash of ["#/", "#/errors", "#/logs", "#/deploys", "#/jobs", "#/audit"]) {
      await go(page, hash);
      await page
        .locator("main")
        .getByText(hash === "#/audit" ? "build.deploy" : "<img src=x")
        .first()
        .waitFor();
      assert.equal(await page.locator("img").count(), 0, hash);
      assert.doesNotMatch(await page.title(), /hit/, hash);
    }
  });

  await t.test("a failed job is retried, alone and with all that failed alike", async () => {
    const mended = path.join(platform.shared, "mended");
    const failed = await Promise.all([1, 2, 3].map(() => jobOf(site, "broken", { text: "the same", mended })));
    writeFileSync(mended, "");
    await go(page, `#/job/${ids.broken}/${failed[0]}`);
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    await page.locator(".heading").getByText("COMPLETED").waitFor();
    await go(page, "#/errors");
    const row = page.locator("tr[data-row]", { hasText: "the same" });
    await row.getByRole("button", { name: "Retry all" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Retry all" }).click();
    for (const id of failed) {
      await eventually(async () => {
        const { json } = await platform.call(`/v2/${ids.broken}/status/${id}`);
        assert.equal(json.status, "COMPLETED");
      });
    }
  });

  await t.test("logs come as they are printed, narrowed by what the address says", async () => {
    await go(page, `#/logs?endpoint=${ids.greet}&grep=ada`);
    await page.getByText("Nothing was printed yet.").waitFor();
    await jobOf(site, "greet", { name: "grace" });
    await jobOf(site, "greet", { name: "ada" });
    await page.locator(".log").getByText("greeting ada").waitFor();
    assert.equal(await page.getByText("greeting grace").count(), 0);
    await page.reload();
    await page.locator(".log").getByText("greeting ada").waitFor();
    assert.equal(await page.getByLabel("Text").inputValue(), "ada");
  });

  await t.test("a deploy shows what it changed, and an earlier one is one click away", async () => {
    writeFileSync(path.join(folder, "queued.py"), QUEUED.replace("hello {name}", "good day {name}"));
    const again = await platform.svc(["deploy", "--message", "politer"], { cwd: folder });
    assert.equal(again.code, 0, again.stderr);
    await go(page, "#/deploys");
    const newest = page.locator(".deploy", { hasText: "politer" });
    await newest
      .getByText(/greet.*code/)
      .first()
      .waitFor();
    const before = page.locator(".deploy", { hasText: "first <img" });
    await before.getByRole("button", { name: "Roll back to it" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Roll back to it" }).click();
    await page.locator(".deploy", { hasText: "rollback" }).first().waitFor();
    // What runs answers until the earlier code is ready.
    await eventually(async () => {
      const { json } = await platform.call(`/v2/${ids.greet}/runsync`, { body: { input: { name: "ada" } } });
      assert.deepEqual(json.output, { message: "hello ada" });
    });
  });

  await t.test("keys and secrets are made and ended, and a new key is shown once", async () => {
    await go(page, "#/keys");
    const keys = page.locator(".card", { hasText: "API keys" });
    await keys.getByLabel("Name").fill(`guest ${MARKUP}`);
    await keys.getByRole("button", { name: "Make a key" }).click();
    const made = (await keys.locator('pre[aria-label="New key"]').textContent())!;
    assert.equal((await platform.call(`/v2/${ids.greet}/health`, { key: made })).status, 200);
    await keys.locator("tr", { hasText: "guest <img" }).getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await keys.locator("tr", { hasText: "guest <img" }).waitFor({ state: "detached" });
    assert.equal((await platform.call(`/v2/${ids.greet}/health`, { key: made })).status, 401);
    const secrets = page.locator(".card", { hasText: "Secrets of shop/production" });
    await secrets.getByLabel("Name").fill("TOKEN");
    await secrets.getByLabel("Value").fill("quite secret");
    await secrets.getByRole("button", { name: "Set" }).click();
    await secrets.getByRole("cell", { name: "TOKEN" }).waitFor();
    assert.ok(!(await page.content()).includes("quite secret"));
  });

  await t.test("the machine's room is shown with who holds it", async () => {
    await jobOf(site, "greet", {});
    await go(page, "#/capacity");
    await page
      .getByText(/\d of [\d.]+ promised/)
      .first()
      .waitFor();
    await page.getByLabel("Who holds what").getByRole("link", { name: "greet" }).waitFor();
  });

  await t.test("with an app and environment chosen, numbers and holders are of it alone", async () => {
    const choice = page.getByRole("combobox", { name: "App and environment" });
    const failed = page.locator("main .tile", { hasText: "Failed" });
    await platform.query('mutation { createEnvironment(app: "shop", name: "staging") { name } }');
    await go(page, "#/?last=1d");
    await page.reload();
    await choice.selectOption("shop/production");
    await failed.getByText(/^of [1-9]/).waitFor();
    await choice.selectOption("shop/staging");
    await page
      .getByRole("region", { name: "Waiting and workers" })
      .getByText("Nothing was measured yet.")
      .first()
      .waitFor();
    await failed.getByText(/^of 0 /).waitFor();
    assert.match((await failed.textContent())!, /^Failed0of 0 /);
    await go(page, "#/capacity?in=shop/staging");
    await page.getByText("No worker of shop/staging runs.").waitFor();
    assert.match((await page.getByRole("region", { name: "The machine", exact: true }).textContent())!, /all apps/);
  });

  await t.test("a page of an endpoint, of the same origin, gets nothing of the console", async () => {
    const context = page.context();
    const cookies = await context.cookies();
    const session = cookies.find(({ name }) => name.startsWith("svc_console"))!;
    assert.ok(session.httpOnly && session.sameSite === "Strict");
    const hostile = await context.newPage();
    const answer = await hostile.goto(`${platform.url}/lb/${ids.web}/page`);
    assert.equal(await hostile.title(), "hostile");
    const headers = await answer!.headersArray();
    const named = headers.map(({ name, value }) => `${name.toLowerCase()}: ${value}`).join("\n");
    assert.doesNotMatch(named, /opener-policy|service-worker-allowed|svc_console/);
    assert.match(named, /set-cookie: theme=dark/);
    const seen = await hostile.evaluate(async (to) => (await fetch(`${to}/seen`)).text(), `/lb/${ids.web}`);
    assert.match(seen, /theme=dark/, "the function gets the page's own cookies");
    assert.doesNotMatch(seen, /svc_console|svcc_/);

    const taken = await hostile.evaluate(async (base) => {
      const body = JSON.stringify({ query: "{ myself { keys { id } } }" });
      const asked = await fetch("/graphql", { method: "POST", body, credentials: "include" });
      const documents = [];
      for (const options of [{}, { headers: { accept: "text/html" } }, { mode: "same-origin" as const }]) {
        documents.push(await (await fetch("/", options)).text());
      }
      const frame = document.createElement("iframe");
      frame.src = "/";
      document.body.append(frame);
      await new Promise((resolve) => {
        frame.onload = resolve;
      });
      let framed = "";
      try {
        framed = frame.contentDocument?.documentElement.outerHTML ?? "";
      } catch {}
      const registered = await navigator.serviceWorker.register(`${base}/worker.js`, { scope: "/" }).then(
        () => "registered",
        (error: Error) => error.message,
      );
      const below = await navigator.serviceWorker.register(`${base}/worker.js`, { scope: `${base}/` }).then(
        () => "registered",
        (error: Error) => error.message,
      );
      return { status: asked.status, documents, framed, registered, below };
    }, `/lb/${ids.web}`);
    assert.equal(taken.status, 401);
    for (const text of [...taken.documents, taken.framed]) assert.doesNotMatch(text, /svc-session/);
    assert.doesNotMatch(taken.registered, /^registered/);
    assert.doesNotMatch(taken.below, /^registered/);

    const [opened] = await Promise.all([
      context.waitForEvent("page"),
      hostile.evaluate(() => {
        Object.assign(window, { taken: window.open("/") });
      }),
    ]);
    await opened.locator("main#main").waitFor();
    const reached = await hostile.evaluate(() => {
      const { taken: other } = window as unknown as { taken: Window };
      try {
        return other.closed ? "closed" : other.document.documentElement.outerHTML;
      } catch (error) {
        return String(error);
      }
    });
    assert.equal(reached, "closed", "the console's window is out of its opener's reach");
    await Promise.all([opened.close(), hostile.close()]);
  });

  await t.test("a page of another site posts nothing with the session", async () => {
    const queries = { query: 'mutation { createKey(input: { name: "stolen", scopes: ["admin"] }) { secret } }' };
    const elsewhere = createServer((_request, response) => {
      response.setHeader("content-type", "text/html");
      response.end(`<form method="post" enctype="text/plain" action="${platform.url}/graphql">
        <input name='${JSON.stringify(queries).slice(0, -1)}, "x": "' value='"}'><button>post</button></form>`);
    }).listen(0, "localhost");
    await once(elsewhere, "listening");
    t.after(() => elsewhere.close());
    const foreign = await page.context().newPage();
    await foreign.goto(`http://localhost:${(elsewhere.address() as AddressInfo).port}/`);
    await foreign.getByRole("button", { name: "post" }).click();
    await foreign.getByText("MISSING_KEY").waitFor();
    await foreign.close();
    const { myself } = await platform.query<{ myself: { keys: { name: string }[] } }>("{ myself { keys { name } } }");
    assert.ok(!myself.keys.some(({ name }) => name === "stolen"));
    elsewhere.closeAllConnections();
  });

  await t.test("a key that may only read sees all and is offered nothing", async () => {
    const document = 'mutation { createKey(input: { name: "looker", scopes: ["read"] }) { secret key { id } } }';
    const { createKey } = await platform.query<{ createKey: { secret: string; key: { id: string } } }>(document);
    const failed = await jobOf(site, "broken", { text: "for the looker" });
    const looker = await open(site, { key: createKey.secret });
    await go(looker.page, `#/job/${ids.broken}/${failed}`);
    await looker.page.locator(".failure").getByText("for the looker").first().waitFor();
    assert.equal(await looker.page.getByRole("button", { name: /Retry|Cancel/ }).count(), 0);
    for (const [hash, shown] of [
      [`#/endpoint/${ids.greet}`, "Calls need a key with the scope invoke."],
      ["#/keys", "They are shown to keys with the scope admin."],
      ["#/deploys", "politer"],
    ] as const) {
      await go(looker.page, hash);
      await looker.page.getByText(shown).first().waitFor();
      const acts = looker.page.getByRole("button", { name: /^(Call|Set|Make a key|Revoke|Roll back to it)$/ });
      assert.equal(await acts.count(), 0, hash);
    }
    assert.equal(await looker.page.getByRole("link", { name: "Audit" }).count(), 0);

    await platform.query("mutation ($id: String!) { revokeKey(id: $id) }", { id: createKey.key.id });
    await go(looker.page, "#/jobs");
    await looker.page.getByText("This session is over").waitFor();
    await looker.page.reload();
    await looker.page.getByText("has no session here").waitFor();
    assert.deepEqual(looker.problems, []);
    await looker.context.close();
  });

  await t.test(
    "every page fits a phone and a desk, by light and dark, with a name on all that is pressed",
    async () => {
      const job = await jobOf(site, "greet", { name: "a".repeat(300) });
      const pages = ["", "endpoints", `endpoint/${ids.greet}`, "jobs", `job/${ids.greet}/${job}`, "errors", "requests"];
      pages.push("logs", "deploys", "capacity", "keys", "audit");
      for (const [width, scheme] of [
        [390, "light"],
        [1280, "dark"],
      ] as const) {
        const look = await open(site, { width, scheme });
        for (const hash of pages) {
          await go(look.page, `#/${hash}`);
          await look.page.locator("main .card").first().waitFor();
          const { wide, nameless } = await look.page.evaluate(() => {
            const controls = [...document.querySelectorAll("button, a, input, select, textarea")] as HTMLElement[];
            const named = (one: HTMLElement) =>
              one.textContent?.trim() || one.getAttribute("aria-label") || (one as HTMLInputElement).labels?.length;
            return {
              wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
              nameless: controls.filter((one) => !named(one)).map((one) => one.outerHTML),
            };
          });
          assert.equal(wide, 0, `#/${hash} at ${width} px`);
          assert.deepEqual(nameless, [], hash);
        }
        assert.deepEqual(look.problems, []);
        await look.context.close();
      }
    },
  );

  await t.test("it is used by keyboard alone", async () => {
    await go(page, "#/");
    await page.locator("main .tile").first().waitFor();
    await page.reload();
    await page.locator("main .tile").first().waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "To the content");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.activeElement?.id === "main");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/#/endpoints");
    // A new page begins at its content.
    await page.waitForFunction(() => document.activeElement?.id === "main");
  });

  await t.test("a thousand endpoints are a list of which a screen is drawn", { timeout: 660_000 }, async () => {
    const save = (n: number) =>
      `e${n}: saveEndpoint(input: { name: "many-${String(n).padStart(4, "0")}", workersMin: 0, workersMax: 0, instanceIds: "cpu3c-1-2", template: { name: "many-${n}", imageName: "svc/worker-cpu:latest" } }) { id }`;
    for (let from = 0; from < 1000; from += 200) {
      const fields = Array.from({ length: 200 }, (_none, n) => save(from + n));
      await platform.query(`mutation { ${fields.join("\n")} }`);
    }
    await go(page, "#/endpoints?name=many");
    await page.getByText("1,000 endpoints").waitFor();
    const rows = page.locator("tr[data-row]");
    assert.ok((await rows.count()) < 100, `${await rows.count()} rows are drawn`);
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await page.getByText("many-0999").waitFor();
    assert.ok((await rows.count()) < 100);
  });

  await t.test("while the platform is away the page says so, and goes on when it is back", async () => {
    await go(page, "#/?last=10m");
    await page.getByRole("link", { name: "greet", exact: true }).first().waitFor();
    await platform.kill();
    await page.getByText("The platform does not answer.").first().waitFor();
    await page.getByRole("link", { name: "greet", exact: true }).first().waitFor();
    const again = await platform.restart();
    await page.getByText("The platform does not answer.").first().waitFor({ state: "detached" });
    await again.call(`/v2/${ids.broken}/runsync`, { body: { input: { text: "after the restart" } } });
    await page.getByText("after the restart").first().waitFor();
  });

  await t.test("logging out ends the session in every window", async () => {
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByText("has no session here").waitFor();
    assert.equal((await page.context().cookies()).filter(({ name }) => name.startsWith("svc_console")).length, 0);
  });
  assert.deepEqual(problems, []);
});
