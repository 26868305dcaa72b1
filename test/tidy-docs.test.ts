/**
 * The documentation's shape: what is made from the code is as the code, every page is found, every block of commands or code is run by a
 * test, or says above it why not: <!-- not run: WHY -->.
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { SIDEBAR } from "../docs/.vitepress/sidebar.ts";
import { madePages } from "../docs/api.ts";
import { ROOT } from "./e2e/platform-process.ts";

/** Run from top to bottom by pages.test.ts, which reads the reasons itself; the last two are made from the code. */
const ELSEWHERE =
  /^docs\/(start|tutorials|build|operate|explanation)\/|^docs\/reference\/(python|typescript)-api\.md$|node_modules/;
const LANGUAGES = ["sh", "python", "ts", "js", "graphql"];

/** Test → page → words of the blocks that it takes from there; none: it takes all of them. test/e2e/reference.test.ts names its own. */
const TAKEN: Record<string, Record<string, readonly string[]>> = {
  "test/control-plane/reference.test.ts": { "graphql.md": ["{"], "compatible-apis.md": ["{"] },
  "test/e2e/management-clients.test.ts": { "compatible-apis.md": [] },
  "test/e2e/names.test.ts": { "porting.md": [], "calling.md": ["plus = "] },
  "test/e2e/lifecycle.test.ts": { "classes.md": ["shared=True"] },
  "test/e2e/images.test.ts": { "images.md": [] },
  "test/e2e/openai.test.ts": { "openai.md": [] },
  "test/e2e/metrics.test.ts": { "metrics.md": [] },
  "test/e2e/pull-runpod.test.ts": { "pull-workers.md": [] },
  "test/e2e/servers.test.ts": { "servers.md": [] },
  "test/e2e/volume-command.test.ts": { "volumes.md": ["svc volume put"] },
  "test/e2e/production.test.ts": { "production.md": [] },
  "test/e2e/third-party-client.test.ts": {
    "clients/README.md": [],
    "clients/ai-sdk.md": [],
    "clients/curl.md": [],
    "clients/langchain.md": [],
    "clients/openai.md": [],
    "clients/runpod-python.md": [],
    "clients/runpod-typescript.md": [],
  },
};

const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");

/** [page's end, words] of every block that a test runs. */
function taken(): [string, string][] {
  const examples = read("test/e2e/reference.test.ts").matchAll(/example\("([\w-]+\.md)", (["'])(.*?)\2\)/g);
  const listed = Object.values(TAKEN).flatMap((pages) =>
    Object.entries(pages).flatMap(([page, words]) => (words.length === 0 ? [""] : words).map((word) => [page, word])),
  ) as [string, string][];
  return [...Array.from(examples, ([, page, , words]) => [page!, words!] as [string, string]), ...listed];
}

test("Every block of commands or code is run by a test, or says why not", () => {
  const run = taken();
  const left: string[] = [];
  for (const page of globSync("docs/**/*.md", { cwd: ROOT }).filter((file) => !ELSEWHERE.test(file))) {
    const text = read(page);
    for (const { 1: reason, 2: language, 3: body, index } of text.matchAll(
      /(^<!-- not run: .* -->\n)?^```(\w+)[^\n]*\n([\s\S]*?)^```$/gm,
    )) {
      if (reason !== undefined || !LANGUAGES.includes(language!)) continue;
      if (run.some(([end, words]) => page.endsWith(`/${end}`) && body!.includes(words))) continue;
      left.push(`${page}:${text.slice(0, index).split("\n").length} ${body!.split("\n")[0]}`);
    }
  }
  assert.deepEqual(left, []);
});

test("The tests that are said to run a page's blocks read that page", () => {
  for (const [file, pages] of Object.entries(TAKEN)) {
    const text = read(file);
    for (const page of Object.keys(pages)) {
      const named = page.startsWith("clients/") ? "docs/clients" : path.basename(page);
      assert.ok(text.includes(named), `${file} does not read ${page}`);
    }
  }
});

test("Every page of docs/ stands in the site's sidebar (docs/.vitepress/sidebar.ts), and nothing else does", () => {
  const listed = SIDEBAR.flatMap(({ items }) => items.map(({ link }) => `docs${link.split("#")[0]}.md`));
  const pages = globSync("docs/**/*.md", { cwd: ROOT }).filter((page) => !page.includes("node_modules/"));
  assert.deepEqual([...new Set(listed)].sort(), pages.filter((page) => page !== "docs/index.md").sort());
});

test("The pages of the Python and the TypeScript API are as the code is: `npm run api` writes them", async () => {
  for (const [page, text] of Object.entries(await madePages())) {
    assert.equal(readFileSync(path.join(ROOT, page), "utf8"), text, `${page} is not as the code: npm run api`);
  }
});
