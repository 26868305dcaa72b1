/** Every way in which a preview ends, on a real engine: nothing of it stays, or the next one removes it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { dockerForTests } from "../docker.ts";
import { assertNothingLeft, engineHas, foldersOf, type Place, place, startPreview } from "./preview.ts";

const docker = await dockerForTests();
const { skip } = docker;

const start = (t: TestContext, where: Place) => startPreview(t, where, { env: docker.env });

test("Ctrl+C while it starts removes what there is, at whatever step", { skip }, async (t) => {
  const shop = place(t);
  for (const step of [/Building/, /Uploading/, /Waiting until/]) {
    const preview = start(t, shop);
    await preview.said(step);
    const code = await preview.interrupt();
    // Null: the signal itself ended it, before there was anything to undo.
    assert.ok(code === 130 || code === null, preview.stderr());
    await assertNothingLeft(shop);
  }
});

test("A second Ctrl+C ends it at once; the next preview removes the rest and says so", { skip }, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  await preview.ready();
  // The first Ctrl+C cannot have done its work when the second comes.
  process.kill(platformOf(shop), "SIGSTOP");
  preview.child.kill("SIGINT");
  await preview.said(/Removing the preview/);
  assert.equal(await preview.interrupt(), 130);
  assert.match(preview.stderr(), /Killed\. The next svc deploy --preview removes what is left\./);
  assert.deepEqual(await engineHas(shop), { containers: 2, networks: 1 });
  await removedByNext(t, shop);
});

test("What a killed preview leaves is removed by the next one, its platform too", { skip }, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  await preview.ready();
  const platform = platformOf(shop);
  process.kill(platform, "SIGSTOP"); // It cannot notice that it is alone.
  preview.child.kill("SIGKILL");
  await preview.ended();
  const stranger = start(t, place(t)); // With another cache folder.
  await stranger.said(/Building/);
  await stranger.interrupt();
  assert.deepEqual(await engineHas(shop), { containers: 2, networks: 1 });
  await removedByNext(t, shop);
  assert.throws(() => process.kill(platform, 0), { code: "ESRCH" });
});

test("The platform of a killed preview ends by itself, with its containers", { skip }, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  await preview.ready();
  preview.child.kill("SIGKILL");
  await preview.ended();
  while ((await engineHas(shop)).containers > 0) {}
  await start(t, shop).said(/Removed what an interrupted preview left: 1 network, 1 folder\./);
});

test("A preview whose platform dies says so and removes everything", { skip }, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  await preview.ready();
  process.kill(platformOf(shop), "SIGKILL");
  assert.equal(await preview.ended(), 1);
  assert.match(preview.stderr(), /error: The preview's platform has ended\./);
  await assertNothingLeft(shop);
});

/** Process id of the platform of the place's only preview. */
function platformOf(where: Place): number {
  const [id, ...others] = foldersOf(where).filter((name) => !name.endsWith(".sock"));
  assert.ok(id !== undefined && others.length === 0);
  const record = readFileSync(path.join(where.cache, "previews", id, "platform.json"), "utf8");
  return (JSON.parse(record) as { pid: number }).pid;
}

async function removedByNext(t: TestContext, shop: Place): Promise<void> {
  const next = start(t, shop);
  await next.said(/Removed what an interrupted preview left: 2 containers, 1 network, 1 folder\./);
  await next.ready();
  assert.deepEqual(await engineHas(shop), { containers: 2, networks: 1 });
  assert.equal(await next.interrupt(), 0);
  await assertNothingLeft(shop);
}
