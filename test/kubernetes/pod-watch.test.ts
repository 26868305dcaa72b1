/** What the list of Pods becomes while the API server cuts, forgets, refuses and talks nonsense: it is played here, frame by frame. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { KUBERNETES_EVENT_MAX_BYTES, KUBERNETES_LISTED_MAX } from "../../src/domain/limits.ts";
import { ApiRefusal } from "../../src/kubernetes/api.ts";
import { PodWatch } from "../../src/kubernetes/pod-watch.ts";
import { eventually } from "../eventually.ts";

const pod = (name: string, resourceVersion: string) => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion },
  status: {},
});
const event = (type: string, object: object) => `${JSON.stringify({ type, object })}\n`;

async function open(t: TestContext) {
  const seen = { lists: 0, watches: [] as string[], troubles: [] as (string | undefined)[] };
  let items: object[] = [];
  let refusal: number | undefined;
  let stream: ServerResponse | undefined;
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    const { searchParams } = new URL(req.url!, "http://any");
    if (refusal !== undefined) return void res.writeHead(refusal).end(JSON.stringify({ message: "no" }));
    if (!searchParams.has("watch")) {
      seen.lists++;
      const from = Number(searchParams.get("continue") ?? 0);
      const to = from + Number(searchParams.get("limit") ?? items.length);
      const metadata = { resourceVersion: `${seen.lists}0`, ...(to < items.length && { continue: `${to}` }) };
      return void res.end(JSON.stringify({ metadata, items: items.slice(from, to) }));
    }
    seen.watches.push(searchParams.get("resourceVersion")!);
    res.writeHead(200).flushHeaders();
    stream = res;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const send = (path: string, signal?: AbortSignal) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const options = { host: "127.0.0.1", port, path, agent: false as const, ...(signal && { signal }) };
      request(options, (res) => {
        if (res.statusCode === 200) resolve(res);
        else reject(new ApiRefusal(res.statusCode!, "", "no"));
      })
        .on("error", reject)
        .end();
    });
  const api = { namespace: "ns", ask: async (_: string, path: string) => json(await send(path)), open: send };
  const watch = new PodWatch({
    api,
    selector: "svc/release=svc",
    changed: () => {},
    troubled: (trouble) => void seen.troubles.push(trouble),
  });
  t.after(async () => {
    await watch.close();
    server.closeAllConnections();
    server.close();
  });
  const names = () => watch.pods.map(({ metadata }) => metadata.name).sort();
  return {
    ...{ watch, seen, names },
    has: (...wanted: string[]) => eventually(() => assert.deepEqual(names(), wanted)),
    watches: (count: number) => eventually(() => assert.equal(seen.watches.length, count)),
    list: (...some: object[]) => {
      items = some;
    },
    refuse: (status: number | undefined) => {
      refusal = status;
    },
    say: (text: string) => void stream!.write(text),
    end: () => void stream!.end(),
    cut: () => void stream!.destroy(),
  };
}

test("More Pods than one answer has are listed in parts, and are known when all have come", async (t) => {
  const rig = await open(t);
  const names = Array.from({ length: 2 * KUBERNETES_LISTED_MAX + 1 }, (_, n) => `p${n}`);
  rig.list(...names.map((name) => pod(name, "1")));
  rig.watch.start();
  await eventually(() => assert.notDeepEqual(rig.names(), []));
  assert.deepEqual([rig.names(), rig.seen.lists, rig.watch.lists], [names.sort(), 3, 1]);
  await rig.watches(1);
  assert.deepEqual(rig.seen.watches, ["30"]);
});

test("Pods are listed, then followed from that version; a watch that ends goes on from the last version heard, bookmarks included", async (t) => {
  const rig = await open(t);
  rig.list(pod("a", "1"));
  rig.watch.start();
  await rig.has("a");
  await rig.watches(1);
  rig.say(event("ADDED", pod("b", "11")) + event("DELETED", pod("a", "12")));
  await rig.has("b");
  rig.say(event("BOOKMARK", { metadata: { resourceVersion: "99" } }));
  rig.end();
  await rig.watches(2);
  assert.deepEqual([rig.seen.lists, rig.seen.watches], [1, ["10", "99"]]);
});

test("An event that arrives in parts is one, and a watch that is cut in the middle of one loses nothing", async (t) => {
  const rig = await open(t);
  rig.watch.start();
  await rig.watches(1);
  const text = event("ADDED", pod("ä", "11"));
  rig.say(text.slice(0, 20));
  rig.say(text.slice(20));
  await rig.has("ä");
  rig.say(event("ADDED", pod("b", "12")).slice(0, 30));
  rig.cut();
  await rig.watches(2);
  rig.say(event("ADDED", pod("b", "12")));
  await rig.has("b", "ä");
});

test("A version that the API server has forgotten makes it list anew: what is gone meanwhile is gone", async (t) => {
  const rig = await open(t);
  rig.list(pod("a", "1"));
  rig.watch.start();
  await rig.watches(1);
  rig.list(pod("c", "2"));
  rig.say(event("ERROR", { code: 410, reason: "Expired", message: "too old resource version" }));
  await rig.has("c");
  await rig.watches(2);
  assert.equal(rig.seen.watches[1], "20");
});

test("While it refuses or is away what was known stays known, and that is told; then it goes on", async (t) => {
  const rig = await open(t);
  rig.list(pod("a", "1"));
  rig.watch.start();
  await rig.watches(1);
  rig.refuse(403);
  rig.cut();
  await eventually(() => assert.ok(rig.seen.troubles.some((one) => one?.startsWith("it refuses"))));
  assert.deepEqual(rig.names(), ["a"]);
  rig.refuse(undefined);
  await rig.watches(2);
  await eventually(() => assert.equal(rig.seen.troubles.at(-1), undefined)); // The watch begins before its answer is here.
});

test("Nonsense and an event without an end are not followed, and do no harm", async (t) => {
  const rig = await open(t);
  rig.list(pod("a", "1"));
  rig.watch.start();
  await rig.watches(1);
  rig.say("this is no JSON\n");
  await rig.watches(2);
  rig.say(event("ADDED", { metadata: { name: 3, resourceVersion: "5" } }));
  await rig.watches(3);
  rig.say(`{"type":"ADDED","object":"${"x".repeat(KUBERNETES_EVENT_MAX_BYTES)}`);
  await rig.watches(4);
  assert.deepEqual(rig.names(), ["a"]);
});
