// May take 12 minutes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import type { Browser, Locator, Page } from "playwright-core";
import { openBrowser, openPage } from "../browser.ts";
import { project, startPlatform } from "../e2e/platform.ts";
import { type RunningServer, startSvcRun } from "./svc-run.ts";

const run = promisify(execFile);

const QUEUED = `import time
from svc import Endpoint


@Endpoint(name="add", cpu="cpu3c-1-2")
def add(a: int = 2, b: int = 40):
    """Add two numbers."""
    return {"sum": a + b}


@Endpoint(name="broken", cpu="cpu3c-1-2")
def broken(text: str):
    """Fail."""
    print("<b>about</b> to fail")
    raise ValueError(f"cannot work with {text!r}")


@Endpoint(name="model", cpu="cpu3c-1-2")
class Model:
    def encode(self, text: str):
        """Encode."""
        return text.upper()

    def decode(self, count: int, deep: bool = False):
        return count


@Endpoint(name="steps", cpu="cpu3c-1-2")
def steps(count: int = 20):
    """Yield numbers."""
    for n in range(count):
        time.sleep(0.2)
        yield {"step": n}
`;

/** The stream waits for a file, so that a test sees its beginning before its end exists. */
const ROUTES = `import os
import struct
import time
import zlib
from dataclasses import dataclass, field

from svc import Endpoint, Response

api = Endpoint(name="api", cpu="cpu3c-1-2", max_concurrency=4)


@api.put("/items/{item_id}")
def put_item(item_id: int, name: str, tags: list[str] = []):
    """Store an item."""
    return {"item_id": item_id, "name": name, "tags": tags, "count": 12345678901234567890, "price": 1.0}


@api.post("/tell")
def tell(text: str, go: str):
    """Tell a text word by word."""
    first, *rest = text.split()
    yield f"data: {first}\\n\\n"
    while not os.path.exists(go):
        time.sleep(0.01)
    for word in rest:
        yield f"data: {word}\\n\\n"


@dataclass
class Line:
    product: str
    count: int = 1


@dataclass
class Order:
    customer: str
    lines: list[Line] = field(default_factory=list)


@api.post("/orders")
def order(order: Order):
    """Order products."""
    return {"lines": len(order.lines), "customer": order.customer}


@api.get("/fails")
def fails(depth: int = 2):
    """Always fail."""
    print("<img src=x onerror=document.title='hit'>")
    raise KeyError("no such product")


@api.post("/upload")
def upload(title: str, picture: bytes):
    """Take a picture."""
    return {"title": title, "bytes": len(picture)}


@api.get("/picture")
def picture():
    """A picture that is wider than the page."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head, rows = struct.pack(">IIBBBBB", 4000, 900, 8, 0, 0, 0, 0), zlib.compress((b"\\0" + b"\\x80" * 4000) * 900)
    png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return Response(png, media_type="image/png")


@api.get("/broken")
def breaks():
    yield "half of an ans"
    time.sleep(0.3)
    raise ValueError("no more")
`;

interface Explorer {
  readonly server: RunningServer;
  readonly browser: Browser;
  readonly folder: string;
  /** Workers may write there, too. */
  readonly shared: string;
  readonly key: string;
}

/** `svc run` ends before the platform and the project's folder go, whatever the test found. */
async function withExplorer(t: TestContext, work: (on: Explorer) => Promise<void>): Promise<void> {
  const on = await start(t);
  if (on === undefined) return;
  try {
    await work(on);
  } finally {
    await on.browser.close();
    assert.equal(await on.server.stop(), 0, on.server.output());
  }
}

async function start(t: TestContext): Promise<Explorer | undefined> {
  const browser = await openBrowser(t);
  if (browser === undefined) return undefined;
  const platform = await startPlatform(t);
  const folder = project(t, { "queued.py": QUEUED, "shop/routes.py": ROUTES }, "shop");
  return {
    server: await startSvcRun(t, platform, folder),
    browser,
    folder,
    shared: platform.shared,
    key: platform.key,
  };
}

async function openOperation(page: Page, method: string, path: string): Promise<Locator> {
  const operation = page.locator(`.opblock-${method}:has([data-path="${path}"])`);
  await operation.locator(".opblock-summary-control").click();
  await operation.locator(".execute").waitFor();
  return operation;
}

/** With each that is open the page has more to draw anew at every key that is typed. */
async function fold(operation: Locator): Promise<void> {
  await operation.locator(".opblock-summary-control").click();
  await operation.locator(".execute").waitFor({ state: "detached" });
}

async function answer(operation: Locator, phase = "done"): Promise<Locator> {
  const shown = operation.locator(`.svc-answer[data-phase="${phase}"]`);
  await shown.waitFor();
  return shown;
}

test("the explorer calls every kind of route in a real browser", { timeout: 700_000 }, (t) =>
  withExplorer(t, async (on) => {
    const { url } = on.server;
    const { page, problems } = await openPage(on.browser, url);
    await page.goto(`${url}/docs`);
    await page.locator(".opblock").first().waitFor();

    await t.test("it groups the routes by worker file and says what each does", async () => {
      assert.equal(await page.title(), "shop · svc run");
      const groups = page.locator("[data-tag]");
      assert.deepEqual(await groups.evaluateAll((all) => all.map((each) => each.getAttribute("data-tag"))), [
        "queued.py",
        "queued.py · jobs",
        "shop/routes.py",
      ]);
      const summary = page.locator('.opblock:has([data-path="/queued/add/runsync"]) .opblock-summary-description');
      assert.equal(await summary.textContent(), "Add two numbers.");
      assert.equal(await page.locator('[data-path="/queued/add/status/{id}"]').isVisible(), false, "folded");
    });

    await t.test("a queue-based function runs with the values that stand there, and its job is shown", async () => {
      const operation = await openOperation(page, "post", "/queued/add/runsync");
      await operation.locator(".execute").click();
      const shown = await answer(operation);
      assert.equal(await shown.locator(".svc-badge").textContent(), "COMPLETED");
      assert.deepEqual(JSON.parse((await shown.locator("pre").first().textContent())!), { sum: 42 });
      assert.match((await shown.locator(".svc-timing").textContent())!, /ran \d+/);

      await operation.locator("textarea").fill('{"input": {"a": 1, "b": 2}}');
      await operation.locator(".execute").click();
      await shown.locator("pre", { hasText: /^\{\s*"sum": 3\s*\}$/ }).waitFor();
    });

    await t.test("a failed job is seen as failed, with the exception and where it was raised", async () => {
      const operation = await openOperation(page, "post", "/queued/broken/runsync");
      await operation.locator(".execute").click();
      const shown = await answer(operation);
      const badge = shown.locator(".svc-badge");
      assert.equal(await badge.textContent(), "FAILED");
      assert.match((await badge.getAttribute("class"))!, /svc-bad$/);
      const text = (await shown.locator(".svc-failure").textContent())!;
      assert.match(text, /ValueError cannot work with/);
      assert.match(text, /queued\.py", line 15/);
    });

    await t.test("a submitted job is followed to its end, and the routes about jobs know its id", async () => {
      const operation = await openOperation(page, "post", "/queued/steps/run");
      await operation.locator(".execute").click();
      const shown = operation.locator(".svc-answer");
      await shown.locator(".svc-badge", { hasText: /IN_QUEUE|IN_PROGRESS/ }).waitFor();
      await page.locator('[data-tag="queued.py · jobs"]').click();
      const stream = await openOperation(page, "get", "/queued/steps/stream/{id}");
      await stream.locator(".execute").click();
      const events = (await answer(stream)).locator(".svc-events li span");
      assert.match((await events.allTextContents()).join(" "), /"step":\s*0.*"step":\s*19/);
      await shown.locator(".svc-badge", { hasText: "COMPLETED" }).waitFor();
      const status = await openOperation(page, "get", "/queued/steps/status/{id}");
      assert.match(await status.locator("input").inputValue(), /-l1$/);
      await status.locator(".execute").click();
      assert.match((await (await answer(status)).textContent())!, /COMPLETED/);
      await status.locator("input").fill("typed");
    });

    await t.test("a running job is cancelled from where it is followed", async () => {
      const operation = page.locator('.opblock-post:has([data-path="/queued/steps/run"])');
      await operation.locator("textarea").fill('{"input": {"count": 1000}}');
      await operation.locator(".execute").click();
      await operation.locator(".svc-badge", { hasText: "IN_PROGRESS" }).waitFor();
      const known = page.locator('.opblock-get:has([data-path="/queued/steps/status/{id}"]) input');
      await page.waitForFunction(
        (input) => /-l1$/.test((input as HTMLInputElement).value),
        await known.elementHandle(),
      );
      await operation.getByRole("button", { name: "Cancel job" }).click();
      await operation.locator(".svc-badge", { hasText: "CANCELLED" }).waitFor();
      for (const [method, path] of [
        ["post", "run"],
        ["get", "stream/{id}"],
        ["get", "status/{id}"],
      ])
        await fold(page.locator(`.opblock-${method}:has([data-path="/queued/steps/${path}"])`));
    });

    await t.test("a load-balanced route gets its path parameters and its body", async () => {
      const operation = await openOperation(page, "put", "/shop/routes/items/{item_id}");
      await operation.locator("input").fill("7");
      await operation.locator(".execute").click();
      const shown = await answer(operation);
      assert.equal(await shown.locator(".svc-badge").textContent(), "200");
      const text = (await shown.locator("pre").first().textContent())!;
      assert.match(text, /"item_id": 7,.*"tags": \[\],\s*"count": 12345678901234567890,\s*"price": 1\.0\s*\}/s);
      await operation.locator("textarea").fill('{"tags": "x"}');
      await operation.locator(".execute").click();
      await shown.getByText("Field required").waitFor();
      assert.match((await shown.locator(".svc-badge").getAttribute("class"))!, /svc-bad$/);
      assert.match(problems.splice(0).join(), /^console: [^,]*status of 422[^,]*$/, "said by the browser itself");
      await fold(operation);
    });

    await t.test("a streamed answer is seen as it comes, before its end, and can be stopped", async () => {
      const operation = await openOperation(page, "post", "/shop/routes/tell");
      const go = `${on.shared}/go`;
      await operation.locator("textarea").fill(JSON.stringify({ text: "one two three", go }));
      await operation.locator(".execute").click();
      const shown = await answer(operation, "streaming");
      const words = shown.locator(".svc-events li span");
      await words.first().waitFor();
      assert.deepEqual(await words.allTextContents(), ["one"]);
      await writeFile(go, "");
      await answer(operation);
      assert.deepEqual(await operation.locator(".svc-events li span").allTextContents(), ["one", "two", "three"]);

      await operation.locator("textarea").fill(JSON.stringify({ text: "again and again", go: `${go}-never` }));
      await operation.locator(".execute").click();
      await answer(operation, "streaming");
      await operation.getByRole("button", { name: "Stop" }).click();
      await answer(operation, "stopped");
      await operation.locator(".execute:enabled").waitFor();
      await fold(operation);
    });

    await t.test("a failed request shows what it printed and its traceback, as text", async () => {
      const operation = await openOperation(page, "get", "/shop/routes/fails");
      await operation.locator(".execute").click();
      const printed = (await answer(operation)).locator(".svc-printed pre");
      await printed.waitFor();
      const text = (await printed.textContent())!;
      assert.match(text, /<img src=x onerror=document\.title='hit'>\n.*Traceback .*KeyError: 'no such product'/s);
      assert.equal(await printed.locator("img").count(), 0);
      assert.match(problems.splice(0).join(), /^console: [^,]*status of 500[^,]*$/, "said by the browser itself");
      const failed = page.locator('.opblock-post:has([data-path="/queued/broken/runsync"]) .svc-printed pre');
      assert.equal(await failed.textContent(), "<b>about</b> to fail\n", "its traceback is shown already");
      await fold(operation);
      await fold(page.locator('.opblock-post:has([data-path="/queued/broken/runsync"])'));
    });

    await t.test(
      "a class of the project stands in the form with its fields, and a class's methods can be chosen",
      async () => {
        const orders = await openOperation(page, "post", "/shop/routes/orders");
        assert.match(
          await orders.locator("textarea").inputValue(),
          /"customer": .*"lines": .*"product": .*"count": 1/s,
        );
        await orders.locator(".execute").click();
        assert.match((await (await answer(orders)).textContent())!, /"lines": 1/);
        const model = await openOperation(page, "post", "/queued/Model/runsync");
        assert.match(await model.locator("textarea").inputValue(), /"method": "encode".*"text"/s);
        await model.locator(".examples-select select, .examples-select-element").first().selectOption("decode");
        assert.match(await model.locator("textarea").inputValue(), /"method": "decode".*"count": 3.*"deep": false/s);
        await model.locator(".execute").click();
        assert.match((await (await answer(model)).textContent())!, /COMPLETED/);
        await fold(model);
      },
    );

    await t.test("a file that is missing is marked and nothing is sent", async () => {
      const operation = await openOperation(page, "post", "/shop/routes/upload");
      await operation.locator('input[type="text"]').fill("a cat");
      await operation.locator(".execute").click();
      await operation.locator('[data-property-name="picture"] .svc-missing').waitFor();
      assert.equal(await operation.locator(".svc-answer").count(), 0);
      const picture = { name: "cat.png", mimeType: "image/png", buffer: Buffer.from("cat") };
      await operation.locator('input[type="file"]').setInputFiles(picture);
      await operation.locator(".execute").click();
      assert.match((await (await answer(operation)).textContent())!, /"title": "a cat",\s*"bytes": 3/);
      await fold(operation);
    });

    await t.test("a large picture fits the page", async () => {
      const operation = await openOperation(page, "get", "/shop/routes/picture");
      await operation.locator(".execute").click();
      const box = await (await answer(operation)).locator("img").boundingBox();
      assert.ok(box !== null && box.width > 0 && box.width < 1000, JSON.stringify(box));
      await fold(operation);
    });

    await t.test(
      "routes are filtered, and a past call is repeated with its input, also over a reload and where its form was closed",
      async () => {
        const watched = await openPage(on.browser, url);
        const other = watched.page;
        await other.goto(`${url}/docs`);
        const add = await openOperation(other, "post", "/queued/add/runsync");
        await add.locator("textarea").fill('{"input": {"a": 20, "b": 3}}');
        await add.locator(".execute").click();
        await answer(add);
        await add.locator("textarea").fill('{"input": {"a": 1, "b": 1}}');
        await add.locator(".execute").click();
        await add.locator("pre", { hasText: /^\{\s*"sum": 2\s/ }).waitFor();
        const put = await openOperation(other, "put", "/shop/routes/items/{item_id}");
        await put.locator("input").fill("31");
        await put.locator("textarea").fill('{"name": "spade"}');
        await put.locator(".execute").click();
        await answer(put);
        await put.locator("input").fill("32");
        await put.locator("textarea").fill('{"name": "bucket"}');

        const past = (text: string) => other.locator(".svc-history li", { hasText: text });
        const again = (row: Locator) => row.getByRole("button", { name: "Repeat" }).click();
        await other.locator(".svc-history summary").click();
        await again(past("/items/31"));
        await other.locator(".svc-history summary", { hasText: "(4)" }).waitFor();
        assert.match((await (await answer(put)).textContent())!, /"item_id": 31,\s*"name": "spade"/);
        assert.equal(await put.locator("input").inputValue(), "31");

        await other.getByLabel("Filter the routes").fill("nothing like this");
        await other.getByText("No route fits.").waitFor();
        await other.reload();
        await other.getByLabel("Filter the routes").fill("put item");
        await other.waitForFunction("document.querySelectorAll('[data-path]').length === 1");
        await other.locator(".svc-history summary").click();
        assert.equal(await past("/items/31").last().locator(".svc-badge").textContent(), "200");
        await again(past("/queued/add/runsync").last());
        await add.locator("pre", { hasText: /^\{\s*"sum": 23\s/ }).waitFor();
        assert.equal(await add.locator("textarea").inputValue(), '{"input": {"a": 20, "b": 3}}');
        await past("/queued/add/runsync").first().locator(".svc-good", { hasText: "COMPLETED" }).waitFor();
        const told = watched.problems.filter((one) => !/escaping deep link/.test(one));
        assert.deepEqual(told, [], "nothing but what Swagger UI says of any reload");

        const upload = await openOperation(other, "post", "/shop/routes/upload");
        await upload.locator('input[type="text"]').fill("a cat");
        const picture = { name: "cat.png", mimeType: "image/png", buffer: Buffer.from("cat") };
        await upload.locator('input[type="file"]').setInputFiles(picture);
        await upload.locator(".execute").click();
        await answer(upload);
        const button = past("/upload").getByRole("button", { name: "Repeat" });
        assert.equal(await button.isDisabled(), true);
        assert.match((await button.getAttribute("title"))!, /file or too long.*choose it in the form/);
        await other.close();
      },
    );

    await t.test("a call is copied as code that makes it again", async () => {
      const operation = page.locator('.opblock-post:has([data-path="/shop/routes/orders"])');
      await operation.getByText("Copy as code").click();
      const code = operation.locator(".svc-code pre");
      for (const [name, command] of [
        ["curl", ["bash", "-c"]],
        ["Python", ["python3", "-c"]],
        ["TypeScript", [process.execPath, "--input-type=module", "-e"]],
      ] as const) {
        await operation.getByRole("button", { name, exact: true }).click();
        const { stdout } = await run(command[0], [...command.slice(1), (await code.textContent())!]);
        assert.match(stdout, /"lines":\s*1/, name);
      }
    });

    assert.deepEqual(problems, [], "nothing is said on the console and nothing leaves this machine");
    assert.ok(!(await page.content()).includes(on.key), "the key stays in the server");

    await t.test("an answer that breaks off is not taken for a whole one", async () => {
      const operation = await openOperation(page, "get", "/shop/routes/broken");
      await operation.locator(".execute").click();
      const shown = await answer(operation, "failed");
      assert.match((await shown.textContent())!, /no whole answer.*broke off/s);
      assert.match((await shown.locator("pre").first().textContent())!, /half of an ans/);
      assert.match(
        problems.splice(0).join(),
        /^console: Failed to load resource: net::[^,]*$/,
        "said by the browser itself",
      );
    });

    await t.test("the page follows the code, and says what is wrong with a change that cannot run", async () => {
      const first = QUEUED.slice(0, QUEUED.indexOf('@Endpoint(name="broken"')).replaceAll("add", "sub");
      await writeFile(`${on.folder}/new.py`, first.replace("def sub(", "def sub(("));
      await page.getByText(/The code before the last change still answers\..*new\.py:6/s).waitFor();
      const second = await openPage(on.browser, url);
      await second.page.goto(`${url}/docs`);
      await second.page.getByText(/The code before the last change still answers\..*new\.py:6/s).waitFor();
      await second.page.close();
      await writeFile(`${on.folder}/new.py`, first);
      const operation = await openOperation(page, "post", "/new/runsync");
      await operation.locator(".execute").click();
      assert.match((await (await answer(operation)).textContent())!, /COMPLETED.*"sum": 42/s);
      assert.equal(await page.locator("#notice").isVisible(), false);
      const earlier = page.locator('.opblock-post:has([data-path="/queued/add/runsync"])');
      assert.equal(
        await earlier.locator("textarea").inputValue(),
        '{"input": {"a": 1, "b": 2}}',
        "what was typed stays",
      );
      assert.match((await earlier.locator(".svc-answer").textContent())!, /"sum": 3/, "and so do answers");
      assert.deepEqual(problems, []);
    });

    await t.test("it fits a narrow window, in the dark too", async () => {
      const narrow = await openPage(on.browser, url, { width: 360, height: 720, scheme: "dark" });
      await narrow.page.goto(`${url}/docs`);
      const operation = await openOperation(narrow.page, "put", "/shop/routes/items/{item_id}");
      await operation.locator(".execute").click();
      await answer(operation);
      assert.ok(await narrow.page.evaluate("document.documentElement.scrollWidth <= innerWidth"));
      assert.equal(await narrow.page.evaluate("document.documentElement.className"), "dark-mode");
      const dark = await narrow.page.evaluate("getComputedStyle(document.body).backgroundColor");
      const light = await page.evaluate("getComputedStyle(document.body).backgroundColor");
      assert.notEqual(dark, light);
      assert.deepEqual(narrow.problems, []);
    });
  }),
);
