/** The console's Capacity page in a real browser, with a machine that joined: a real agent, which leaves while the page is open. */
// May take 12 minutes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openBrowser } from "../browser.ts";
import { startJoinable } from "../e2e/joined-hosts.ts";

test("A machine that joined has a card with what is promised and busy and what runs there, and is away when its agent ends", {
  timeout: 600_000,
}, async (t) => {
  const browser = await openBrowser(t);
  if (browser === undefined) return;
  const { platform, join, deploy } = await startJoinable(t);
  const { agent, again } = await join("gpu-1");
  const { url } = await deploy();
  const { json } = await platform.call(`${url}/runsync`, { body: { input: { n: 1 } } });
  assert.equal(json.status, "COMPLETED");

  const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
  page.setDefaultTimeout(120_000);
  const { stdout } = await platform.svc(["console", "--json"]);
  await page.goto((JSON.parse(stdout) as { url: string }).url);
  await page.getByRole("link", { name: "record" }).first().waitFor();
  await page.evaluate("location.hash = '#/capacity'");
  const card = page.getByRole("region", { name: "gpu-1", exact: true });
  await card.getByText("joined").waitFor();
  // The agent has measured it.
  await card.getByText(/^[\d.]+ of [\d.]+ promised, [\d.]+ busy$/).waitFor();
  await card.getByText(/^[\d.]+ of [\d.]+ GB promised, [\d.]+ GB busy$/).waitFor();
  await card.getByRole("link", { name: "record" }).waitFor();
  await card.getByText("Over the last hour").click();
  const chart = card.getByRole("figure", { name: "vCPU of gpu-1, promised and busy" });
  await chart.waitFor();
  await card.getByText("Over the last hour").click();
  await chart.waitFor({ state: "detached" });
  const all = page.getByRole("region", { name: "All machines", exact: true });
  await all.getByText(/ promised, [\d.]+ busy$/).waitFor();
  await page.getByRole("region", { name: "All machines’ vCPU over time" }).waitFor();
  const wide = await page.evaluate("document.documentElement.scrollWidth");
  assert.ok(Number(wide) <= 390, `${wide} pixels on a phone`);

  await agent.signal("SIGKILL");
  await card.getByText("away").waitFor();
  const words = await card.textContent();
  assert.doesNotMatch(words!, /busy/, "nobody knows it now");
  again();
  await card.getByText("joined").waitFor();
});
