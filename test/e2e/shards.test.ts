/** Three platforms that share the endpoints of one database: calls arrive anywhere, and any of the three may end in any way. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { LauncherProcess } from "../../src/drivers/launcher-process.ts";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { svc } from "./platform.ts";
import { breath, listsEndpoints, type ReplicaServers, type Replicas, startReplicas, startServers } from "./replicas.ts";
import { SHARES, shared } from "./sharing.ts";

const skip = await lacksServers();
const QUEUED = 6;

const WORKER = `
import os
import time
from svc import Endpoint

${Array.from(
  { length: QUEUED },
  (_, n) => `
@Endpoint(name="double-${n}", workers=(0, 2), max_concurrency=8)
def double_${n}(x, go=""):
    while go and not os.path.exists(go):
        time.sleep(0.02)
    return 2 * x
`,
).join("")}

web = Endpoint(name="web", workers=(1, 1), max_concurrency=8)

@web.post("/echo")
async def echo(text: str) -> dict:
    return {"text": text}

twin = Endpoint(name="twin", workers=(1, 1), max_concurrency=8)

@twin.post("/echo")
async def echo_too(text: str) -> dict:
    return {"text": text}
`;

function errorsIn(said: readonly string[]): readonly string[] {
  // Tests store without a wait for the disk, which is told at the start.
  return said.filter((line) => / error /.test(line) && !line.includes("fsync is off"));
}

/** They outlive a platform that is killed. */
function endsWorkersOf(t: TestContext, { dataDir }: { readonly dataDir: string }): void {
  const left = LauncherProcess.earlier(dataDir);
  t.after(() => left?.kill());
}

async function three(replicas: Replicas) {
  const paths = await replicas.deploy(WORKER);
  const [second, third] = await Promise.all([replicas.another(), replicas.another()]);
  const all = [replicas.first, second, third];
  await shared(
    replicas.first.dataDir,
    all.map(({ url }) => url),
  );
  const doubles = Array.from({ length: QUEUED }, (_, n) => paths[`double-${n}`]!);
  return { paths, doubles, second, third, all };
}

describe("three platforms that share the endpoints", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("a call that arrives anywhere is answered by whoever has its endpoint, and each has some", async (t) => {
    const replicas = await startReplicas(t, servers, "shards", SHARES);
    const { first, call } = replicas;
    const { paths, doubles, second, third, all } = await three(replicas);
    for (const [n, at] of doubles.entries()) {
      for (const platform of all) {
        const { status, json, text } = await call(platform, `${at}/runsync`, { body: { input: { x: n } } });
        assert.deepEqual([status, json.output], [200, 2 * n], text);
        const run = await call(platform, `${at}/run`, { body: { input: { x: 1 } } });
        const other = all.find((each) => each !== platform)!;
        await eventually(async () => {
          const found = await call(other, `${at}/status/${run.json.id}`);
          assert.equal(found.json.status, "COMPLETED", found.text);
        });
        const health = await call(other, `${at}/health`);
        assert.equal(health.json.jobs.inQueue, 0, health.text);
      }
      const { json } = await call(third, `${at}/health`);
      assert.equal(json.jobs.completed, 6);
    }
    for (const name of ["web", "twin"]) {
      for (const platform of all) {
        const echo = await call(platform, `${paths[name]}/echo`, { body: { text: "hear" } });
        assert.deepEqual([echo.status, echo.json], [200, { text: "hear" }], echo.text);
      }
    }
    const never = path.join(first.shared, "never");
    const waits = await call(second, `${doubles[0]}/run`, { body: { input: { x: 1, go: never } } });
    const cancelled = await call(third, `${doubles[0]}/cancel/${waits.json.id}`, { method: "POST" });
    assert.equal(cancelled.json.status, "CANCELLED");
    // Eight endpoints lie with one platform once in thousands of starts.
    const starts = [second, third].map(({ said }) => said.filter((line) => line.includes("worker started")).length);
    t.diagnostic(`${starts.join(" and ")} workers began at the two that came later`);
    assert.ok(Math.max(...starts) > 0);

    const words = await svc(["platform", "status", "--data-dir", third.dataDir]);
    assert.match(
      words.stdout,
      /Replicas 3\n {9}http\S+ +has the database, \d+ of 256 shards.*\n {9}http\S+ +\d+ of 256 shards/,
    );

    // New code is there for the next call, wherever it comes.
    const again = WORKER.replaceAll("return 2 * x", "return 3 * x");
    await replicas.deploy(again);
    await Promise.all(
      doubles.map((at, n) =>
        eventually(async () => {
          const { json, text } = await call(all[n % 3]!, `${at}/runsync`, { body: { input: { x: 7 } } });
          assert.equal(json.output, 21, text);
        }),
      ),
    );
    await eventually(async () => {
      const asked = await call(third, "/graphql", {
        body: { query: "{ myself { endpoints { name status { state } } } }" },
      });
      assert.deepEqual(
        asked.json.data.myself.endpoints.map((one: { status: { state: string } }) => one.status.state),
        Array(QUEUED + 2).fill("READY"),
        asked.text,
      );
    });

    const stops = all.map(({ dataDir }) => svc(["platform", "stop", "--data-dir", dataDir]));
    assert.deepEqual(
      (await Promise.all(stops)).map(({ code }) => code),
      [0, 0, 0],
    );
    for (const { said } of [second, third]) assert.deepEqual(errorsIn(said), [], "nobody minds that the others end");
  });

  test("while endpoints move every platform says what is counted of them, and never that there is nothing", async (t) => {
    const replicas = await startReplicas(t, servers, "shards_counted", SHARES);
    const { first, call } = replicas;
    const paths = await replicas.deploy(WORKER);
    const doubles = Array.from({ length: QUEUED }, (_, n) => paths[`double-${n}`]!);
    for (const at of doubles) {
      const { status, text } = await call(first, `${at}/runsync`, { body: { input: { x: 1 } } });
      assert.equal(status, 200, text);
    }
    const asked: { readonly url: string }[] = [first];
    let goesOn = true;
    const ask = async (at: string) => {
      for (let n = 0; goesOn; n++) {
        const { json, text } = await call(asked[n % asked.length]!, `${at}/health`);
        assert.equal(json.jobs.completed, 1, text);
        await breath();
      }
    };
    const asks = Promise.all(doubles.map(ask));
    const moves = async () => {
      const second = await replicas.another();
      asked.push(second);
      await shared(first.dataDir, [first.url, second.url]);
      asked.pop();
      const { code, stderr } = await svc(["platform", "stop", "--data-dir", second.dataDir]);
      assert.equal(code, 0, stderr);
      await shared(first.dataDir, [first.url]);
    };
    try {
      await Promise.race([asks, moves()]);
    } finally {
      goesOn = false;
    }
    await asks;
  });

  test("two of three are killed under load, one after the other: no accepted job is lost, and none ends twice", async (t) => {
    const replicas = await startReplicas(t, servers, "shards_killed", SHARES);
    const { first, call } = replicas;
    const { doubles, second, third } = await three(replicas);
    const accepted = new Map<string, { readonly at: string; readonly x: number }>();
    const alive: { readonly url: string }[] = [second];
    let [answered, goesOn, longest] = [0, true, 0];
    const caller = async (n: number) => {
      for (let i = 0; goesOn; i++) {
        const x = n * 1_000 + i;
        const at = doubles[x % QUEUED]!;
        const to = alive[i % alive.length]!;
        const began = performance.now();
        if (n < 2) {
          const { status, json, text } = await call(to, `${at}/run`, { body: { input: { x } } });
          assert.equal(status, 200, text);
          accepted.set(json.id, { at, x });
        } else {
          const { status, json, text } = await call(to, `${at}/runsync`, { body: { input: { x } } });
          assert.deepEqual([status, json.output], [200, 2 * x], text);
          accepted.set(json.id, { at, x });
        }
        longest = Math.max(longest, performance.now() - began);
        answered++;
        await breath();
      }
    };
    const callers = Array.from({ length: 5 }, (_, n) => caller(n));
    const load = Promise.all(callers);
    const goesOnFor = async (calls: number) => {
      const until = answered + calls;
      await Promise.race([load, eventually(() => assert.ok(answered > until))]);
    };
    await goesOnFor(60);
    await third.end("SIGKILL");
    endsWorkersOf(t, third);
    await goesOnFor(60);
    await shared(second.dataDir, [first.url, second.url]);
    // The one that has the database's row.
    await first.kill();
    endsWorkersOf(t, first);
    await goesOnFor(60);
    await shared(second.dataDir, [second.url]);
    goesOn = false;
    await load;
    t.diagnostic(`${accepted.size} jobs accepted, the longest call took ${Math.round(longest)} ms`);
    for (const [id, { at, x }] of accepted) {
      await eventually(async () => {
        const { json, text } = await call(second, `${at}/status/${id}`);
        assert.deepEqual([json.status, json.output], ["COMPLETED", 2 * x], text);
      });
    }
    for (const at of doubles) {
      const { json } = await call(second, `${at}/health`);
      const wanted = [...accepted.values()].filter((one) => one.at === at).length;
      assert.equal(json.jobs.completed, wanted, "each job is counted once");
    }
  });

  test("one that stands still has its endpoints answered elsewhere, and gets its part again when it wakes, or ends when it had the database, with its callers answered; one that does not share is refused", async (t) => {
    const replicas = await startReplicas(t, servers, "shards_stopped", SHARES);
    const { first, call } = replicas;
    const { paths, doubles, second, third, all } = await three(replicas);
    await assert.rejects(replicas.another({ SVC_SHARE_SHARDS: "0" }), /shares its endpoints with others/);
    const answers = async (platforms: readonly { readonly url: string }[], x: number) => {
      await Promise.all(
        doubles.map(async (at, n) => {
          const { status, json, text } = await call(platforms[n % platforms.length]!, `${at}/runsync`, {
            body: { input: { x } },
          });
          assert.deepEqual([status, json.output], [200, 2 * x], text);
        }),
      );
      const echo = await call(platforms[0]!, `${paths.web}/echo`, { body: { text: "hear" } });
      assert.equal(echo.status, 200, echo.text);
    };
    await answers(all, 1);
    process.kill(third.pid, "SIGSTOP");
    try {
      await answers([second, first], 2);
      await shared(second.dataDir, [first.url, second.url]);
      await answers([first, second], 3);
    } finally {
      process.kill(third.pid, "SIGCONT");
    }
    await shared(
      third.dataDir,
      all.map(({ url }) => url),
    );
    await answers(all, 4);

    process.kill(first.pid, "SIGSTOP");
    // Its machine takes the connections.
    const held = answers([first], 5);
    held.catch(() => {});
    try {
      await eventually(async () => {
        const seen = await shared(second.dataDir, [second.url, third.url]);
        assert.ok(
          seen.some(({ owns, url }) => owns && url !== first.url),
          "another has the database",
        );
      });
    } finally {
      process.kill(first.pid, "SIGCONT");
    }
    await held;
    await eventually(() => assert.throws(() => process.kill(first.pid, 0), "it ends"));
    await answers([second, third], 6);
  });

  test("one that is told to stop under load gives its endpoints away, and no call fails", async (t) => {
    const replicas = await startReplicas(t, servers, "shards_given", SHARES);
    const { first, call } = replicas;
    const { paths, doubles, second, third } = await three(replicas);
    for (const [leaves, stays] of [
      [third, second],
      [first, second],
    ] as const) {
      let [answered, goesOn, isReadyAtFirst, longest] = [0, true, true, 0];
      const looks = (async () => {
        while (isReadyAtFirst) {
          isReadyAtFirst = (await call(leaves, "/readyz", { key: null })).status === 200;
          await delay(100);
        }
      })();
      const caller = async (n: number) => {
        for (let i = 0; goesOn; i++) {
          const x = n * 1_000 + i;
          const to = isReadyAtFirst && n % 2 === 0 ? leaves : stays;
          const began = performance.now();
          const answer =
            n < 2
              ? await call(to, `${paths[i % 2 === 0 ? "web" : "twin"]}/echo`, { body: { text: `${x}` } })
              : await call(to, `${doubles[x % QUEUED]}/runsync`, { body: { input: { x } } });
          assert.equal(answer.status, 200, answer.text);
          if (n >= 2) assert.equal(answer.json.output, 2 * x, answer.text);
          longest = Math.max(longest, performance.now() - began);
          answered++;
          await breath();
        }
      };
      const manager = async () => {
        while (goesOn) await listsEndpoints(replicas, stays);
      };
      const load = Promise.all([...Array.from({ length: 6 }, (_, n) => caller(n)), manager(), manager()]);
      await Promise.race([load, eventually(() => assert.ok(answered > 60))]);
      const go = path.join(first.shared, `go-${leaves === first}`);
      const running = doubles.map((at) => call(leaves, `${at}/runsync`, { body: { input: { x: 21, go } } }));
      await Promise.race([
        load,
        eventually(async () => {
          for (const at of doubles) assert.ok((await call(stays, `${at}/health`)).json.jobs.inProgress > 0);
        }),
      ]);
      const stopped = svc(["platform", "stop", "--data-dir", leaves.dataDir]);
      await looks;
      writeFileSync(go, "");
      for (const { json, text } of await Promise.all(running)) {
        assert.equal(json.output, 42, text);
        assert.equal(json.retries ?? 0, 0, "what ran was finished");
      }
      assert.equal((await stopped).code, 0);
      const before = answered;
      await Promise.race([load, eventually(() => assert.ok(answered > before + 60))]);
      goesOn = false;
      await load;
      t.diagnostic(`${answered} calls, the longest took ${Math.round(longest)} ms`);
    }
    await shared(second.dataDir, [second.url]);
    const ready = second.said.filter((line) => /\d of \d workers are ready, before it comes/.test(line));
    assert.ok(ready.length > 0, "workers were there before their endpoints came");
    for (const { said } of [second, third]) assert.deepEqual(errorsIn(said), []);
  });
});
