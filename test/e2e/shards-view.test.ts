/** What people look at, where several platforms share the endpoints: it is of all of them, whichever is asked. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import { createServer } from "node:tls";
import { METRICS_FRESH_MS, SERIES_STEP_MS } from "../../src/domain/limits.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { type ReplicaServers, startReplicas, startServers } from "./replicas.ts";
import { ownersOf, SHARES, shared } from "./sharing.ts";

const skip = await lacksServers();
const DATABASE = "shards_view";
const DIALS = 1_000;

const worker = (each: number) => `
from svc import Endpoint

${Array.from(
  { length: each },
  (_, n) => `
@Endpoint(name="say-${n}", workers=(0, 1), idle_timeout=600, max_concurrency=4)
def say_${n}(text, bad=False):
    print(f"said {text}")
    if bad:
        raise ValueError(text)
    return text
`,
).join("")}
web = Endpoint(name="web", workers=(0, 1), idle_timeout=600)

@web.get("/items")
async def items() -> dict:
    return {}
`;

/** What comes of a stream, as text; it ends with the test. */
async function followed(t: TestContext, url: string, key: string): Promise<{ text: string }> {
  const over = new AbortController();
  t.after(() => over.abort());
  const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal: over.signal });
  assert.equal(answer.status, 200);
  const heard = { text: "" };
  (async () => {
    for await (const part of answer.body!) heard.text += Buffer.from(part).toString();
  })().catch(() => {});
  return heard;
}

/** Where a process listens for other machines, as the kernel writes it. */
function beyondThisMachine(pid: number): string[] {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return []; // Closed meanwhile.
      }
    }),
  );
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === "0A" && sockets.has(inode ?? ""))
      .map(([, address]) => address!)
      .filter((address) => !/^(0100007F|00000000000000000000000001000000):/.test(address)),
  );
}

describe("two platforms that share the endpoints", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("what is printed, counted and recorded at one is seen through the other, and a scrape of each counts all once", async (t) => {
    const replicas = await startReplicas(t, servers, DATABASE, { ...SHARES, SVC_METRICS: "on" });
    const { first, call } = replicas;
    const second = await replicas.another();
    await shared(first.dataDir, [first.url, second.url]);
    const events = await followed(t, `${first.url}/events?topics=jobs,decisions,series`, first.key);
    let [near, far, paths]: [string?, string?, Record<string, string>?] = [];
    // Which endpoints are whose is drawn: until each has one.
    for (let each = 3; near === undefined || far === undefined || paths === undefined; each += 2) {
      paths = await replicas.deploy(worker(each));
      const owners = await ownersOf(replicas, servers.postgres, DATABASE);
      const of = (url: string) => [...owners].find(([name, owner]) => name.startsWith("say") && owner === url)?.[0];
      [near, far] = [of(first.url), of(second.url)];
    }
    const ids = new Map((await first.endpoints()).map(({ id, name }) => [name, id]));
    const began = Date.now() - SERIES_STEP_MS;

    const logsOf = (name: string, more = "") => `/logs/${ids.get(name)}?tail=100${more}`;
    const heard = await followed(t, `${second.url}${logsOf(far, "&follow=1")}`, first.key);
    const all = await followed(t, `${first.url}/logs?follow=1&tail=0`, first.key);

    for (const [n, name] of [near, far, near, far].entries()) {
      const platform = n < 2 ? first : second;
      const { json, text } = await call(platform, `${paths[name]}/runsync`, {
        body: { input: { text: `${name}-${n}` } },
      });
      assert.equal(json.output, `${name}-${n}`, text);
    }
    const failed = await call(first, `${paths[far]}/runsync`, { body: { input: { text: "wrong", bad: true } } });
    assert.equal(failed.json.status, "FAILED", failed.text);
    for (const platform of [first, second]) {
      const { status, text } = await call(platform, `${paths.web}/items`);
      assert.equal(status, 200, text);
    }

    // At once, before it is in the bucket: through both.
    for (const platform of [first, second]) {
      await eventually(async () => {
        const { text } = await call(platform, logsOf(far));
        assert.match(text, new RegExp(`said ${far}-1`));
        assert.match(text, new RegExp(`said ${far}-3`));
      });
    }
    await eventually(() => assert.match(heard.text, new RegExp(`said ${far}-3`)));
    await eventually(() => {
      for (const [n, name] of [near, far, near, far].entries()) {
        assert.equal(all.text.split(`"said ${name}-${n}"`).length, 2, `heard once: ${all.text}`);
      }
    });
    const printed = await first.svc(["logs", far]);
    assert.match(printed.stdout, new RegExp(`said ${far}-1`), printed.stderr);

    // Whoever asks gets what whoever has it knows.
    interface Shown {
      readonly name: string;
      readonly decisions: readonly { readonly start: number }[];
      readonly pods: readonly { readonly boot: string; readonly jobsDone: number | null }[];
      readonly status: { readonly state: string };
    }
    const asked = "{ myself { endpoints { name status { state } decisions { start } pods { boot jobsDone } } } }";
    const shown = async (name: string) => {
      const { myself } = await first.query<{ myself: { endpoints: Shown[] } }>(asked);
      return myself.endpoints.find((one) => one.name === name)!;
    };
    await eventually(async () => {
      const seen = await shown(far);
      assert.deepEqual(
        [seen.status.state, seen.pods.length, seen.pods[0]?.jobsDone],
        ["READY", 1, 3],
        JSON.stringify(seen),
      );
      assert.ok(
        seen.decisions.some(({ start }) => start === 1),
        JSON.stringify(seen),
      );
      assert.match(seen.pods[0]!.boot, /fork|spawn/);
    });
    await eventually(() => {
      assert.match(events.text, new RegExp(`event: jobs\\ndata: \\{"endpointId":"${ids.get(far)}"`));
      assert.match(events.text, new RegExp(`event: decisions\\ndata: \\{"endpointId":"${ids.get(far)}"`));
    });

    // Series are of both, also their sum.
    const summed = async (metric: string, name: string | null) => {
      const { series } = await first.query<{ series: { points: { value: number | null }[] } }>(
        `query($id: String, $metric: String!, $from: Float!, $to: Float!) {
          series(endpoint: $id, metric: $metric, from: $from, to: $to, step: ${SERIES_STEP_MS}) { points { value } }
        }`,
        { id: name && ids.get(name), metric, from: began, to: Date.now() + SERIES_STEP_MS },
      );
      return series.points.reduce((sum, { value }) => sum + (value ?? 0), 0);
    };
    await eventually(async () => {
      assert.equal(await summed("done", far), 2);
      assert.equal(await summed("failed", far), 1);
      assert.equal(await summed("done", near), 2);
      assert.equal(await summed("done", null), 4);
      assert.equal(await summed("requests.2xx", "web"), 2);
    });
    assert.ok((await summed("runMs.p95", far)) > 0);

    // Records, page by page.
    const rows: string[] = [];
    for (let next: string | null = ""; next !== null; ) {
      const page: { requests: { requests: { id: string; endpoint: string }[]; next: string | null } } =
        await first.query(
          "query($next: String) { requests(first: 1, after: $next) { requests { id endpoint } next } }",
          { next },
        );
      rows.push(...page.requests.requests.map(({ endpoint }) => endpoint));
      ({ next } = page.requests);
    }
    assert.deepEqual(rows, ["web", "web"], "one was answered here, and one there");
    const { errorGroups } = await first.query<{ errorGroups: { endpoint: string; count: number }[] }>(
      "{ errorGroups(first: 10) { endpoint count } }",
    );
    assert.deepEqual(errorGroups, [{ endpoint: far, count: 1 }]);

    // Each says what it did itself: their sum is all.
    const scraped = async (name: string, labels: string): Promise<number[]> =>
      Promise.all(
        [first, second].map(async (platform) => {
          const { text } = await call(platform, "/metrics", { key: null });
          const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) && line.includes(labels));
          return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
        }),
      );
    await eventually(async () => {
      assert.deepEqual(await scraped("svc_jobs_total", `endpoint="${far}"`), [0, 3]);
      assert.deepEqual(await scraped("svc_jobs_total", `endpoint="${near}"`), [2, 0]);
      assert.deepEqual(await scraped("svc_requests_total", `endpoint="web"`), [1, 1]);
      const [here, there] = await scraped("svc_cold_starts_total", `endpoint="${far}"`);
      assert.ok(here === 0 && there! > 0, `${here} and ${there} cold starts`);
      assert.deepEqual(
        await scraped("svc_workers", `endpoint="${far}",app="app",environment="production",state="ready"`),
        [0, 1],
      );
    }, 60_000 + METRICS_FRESH_MS);

    await t.test(
      "strangers at the door, and a row that leads to one, get nothing and keep nobody from being answered",
      async (t) => {
        for (const { pid } of [first, second])
          assert.deepEqual(beyondThisMachine(pid), [], "nobody asked it to listen there");
        const { sql } = servers.postgres;
        const port = Number(
          (await sql(`SELECT address FROM platform_replicas WHERE url = '${second.url}'`, DATABASE)).split(":")[1],
        );
        const silent = Array.from({ length: DIALS }, () => connectTcp(port, "127.0.0.1"));
        t.after(() => {
          for (const socket of silent) socket.destroy();
        });
        for (const socket of silent) {
          socket.on("error", () => {});
          socket.write(Buffer.of(0x16));
        }
        const heard: string[] = [];
        const stranger = createServer({
          ...selfSignedCertificate("svc replica link"),
          ALPNProtocols: ["svc-link", "svc-calls"],
        });
        stranger.on("secureConnection", (socket) => {
          socket.on("error", () => {});
          socket.on("data", (bytes) => heard.push(bytes.toString()));
        });
        const dials = once(stranger, "connection");
        stranger.listen(0, "127.0.0.1");
        await once(stranger, "listening");
        t.after(() => stranger.close());
        const { port: elsewhere } = stranger.address() as AddressInfo;
        await sql(
          `INSERT INTO platform_replicas (id, home, place, url, address, first_link, last_link, version, shares)
         SELECT 'stranger', 'nowhere', 'elsewhere', 'http://127.0.0.1:1', '127.0.0.1:${elsewhere}', first_link, last_link, version, shares
         FROM platform_replicas LIMIT 1`,
          DATABASE,
        );
        await dials;
        for (const platform of [first, second]) {
          for (const name of [near, far]) {
            const { json, text } = await call(platform, `${paths[name]}/runsync`, {
              body: { input: { text: "still" } },
            });
            assert.equal(json.output, "still", text);
          }
          assert.equal((await call(platform, logsOf(far))).status, 200);
        }
        assert.deepEqual(heard, []);
      },
    );
  });
});
