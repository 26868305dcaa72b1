import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import pc from "picocolors";
import { PreviewLogs } from "../../../src/cli/preview/logs.ts";
import { serve } from "../../client/serve.ts";

const ENDPOINTS = [
  { id: "a1", name: "api" },
  { id: "d1", name: "double" },
];

/** A platform whose endpoints have printed one line each and go on when told. */
async function loggingPlatform() {
  const followers = new Map<string, ServerResponse>();
  const both = Promise.withResolvers<void>();
  const url = await serve((req, res) => {
    const id = new URL(req.url!, "http://x").pathname.split("/").at(-1)!;
    followers.set(id, res);
    res.write(line("stdout", `first of ${id}`));
    if (followers.size === 2) both.resolve();
  });
  await Promise.resolve();
  return { url, followers, both: both.promise };
}

function line(stream: string, text: string): string {
  return `${JSON.stringify({ at: 0, worker: "w", job: "", stream, text })}\n`;
}

test("Every endpoint's lines stand behind its name in a column; before they are shown they are kept", async () => {
  const { url, followers, both } = await loggingPlatform();
  const printed: string[] = [];
  const three = Promise.withResolvers<void>();
  const logs = new PreviewLogs(pc.createColors(false), (text) => {
    printed.push(text);
    if (printed.length === 3) three.resolve();
  });
  logs.follow({ url, apiKey: "k" }, ENDPOINTS);
  await both;
  assert.deepEqual(printed, []);
  logs.show();
  followers.get("d1")!.write(line("stderr", "then"));
  await three.promise;
  assert.deepEqual(printed.sort(), ["api    | first of a1", "double | first of d1", "double | then"]);
  await logs.stop();
});

test("On a terminal each endpoint has a colour of its own", async () => {
  const { url } = await loggingPlatform();
  const printed: string[] = [];
  const two = Promise.withResolvers<void>();
  const logs = new PreviewLogs(pc.createColors(true), (text) => {
    printed.push(text);
    if (printed.length === 2) two.resolve();
  });
  logs.show();
  logs.follow({ url, apiKey: "k" }, ENDPOINTS);
  await two.promise;
  const colors = printed.map((text) => /^\u001b\[(\d+)m/.exec(text)?.[1]);
  assert.equal(new Set(colors).size, 2);
  assert.ok(!colors.includes(undefined));
  await logs.stop();
});
