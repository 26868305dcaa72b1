/** What every driver must do, shown with real workers that dial a real socket. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { SvcError } from "../../src/domain/errors.ts";
import type { WorkerImage } from "../../src/drivers/worker-driver.ts";
import type { LocalDriver } from "../../src/server/driver.ts";
import { type DriverParts, DriverPlatform, type TestWorker } from "./driver-platform.ts";

/** A variable of the platform's environment that no worker may see. */
export const PLATFORM_SECRET = { SVC_TEST_PLATFORM_SECRET: "do not tell" };

const POLL_MS = 20;

interface DriverSetup {
  readonly skip: string | false;
  make(parts: DriverParts): LocalDriver;
  /** The address where workers and hosts dial in over the network. */
  readonly tls?: string;
}

export function driverConformance(name: string, setup: DriverSetup): void {
  describe(`${name}: the worker driver`, { skip: setup.skip }, () => {
    let platform: DriverPlatform;
    let image: WorkerImage;
    before(async () => {
      platform = new DriverPlatform(setup.make, setup.tls);
      await platform.open();
      image = await platform.image("one");
    });
    after(() => platform.close());

    test("a worker starts, proves itself with its token and does work", async () => {
      const worker = await platform.start(image);
      assert.deepEqual(await worker.run("echo", { a: [1, "ü"] }), { ok: true, value: { a: [1, "ü"] } });
      assert.ok((await platform.driver.list())?.includes(worker.id));
    });

    test("the second worker of an image is a fork of the first one's zygote", async (t) => {
      await platform.start(image);
      const second = await platform.start(image);
      assert.equal(second.started.how, "fork");
      t.diagnostic(`ready after ${second.readyMs.toFixed(1)} ms`);
    });

    test("several workers started at once all come up, each for itself", async () => {
      const fresh = await platform.image("at-once");
      const workers = await Promise.all([1, 2, 3, 4].map(() => platform.start(fresh)));
      const pids = await Promise.all(workers.map(async (worker) => (await worker.run("pid")).value));
      assert.equal(new Set(pids).size, 4);
    });

    test("a worker has the variables it was given and none of the platform's", async () => {
      const worker = await platform.start(image, { revision: "env", env: { GREETING: "hallo ü" } });
      const { value } = await worker.run("env");
      assert.equal(value.GREETING, "hallo ü");
      assert.ok(value.PATH);
      assert.ok(!JSON.stringify(value).includes(PLATFORM_SECRET.SVC_TEST_PLATFORM_SECRET));
    });

    test("variables of many bytes reach the worker, also one that needs an interpreter of its own", async () => {
      const env = { LARGE: "x".repeat(64_000), ODD: "\u0001".repeat(60_000) };
      for (const bootType of ["SVCBOOT", "OFF"] as const) {
        const worker = await platform.start({ ...image, bootType }, { revision: `large-${bootType}`, env });
        const { value } = await worker.run("env");
        assert.deepEqual([value.LARGE.length, value.ODD.length], [64_000, 60_000]);
      }
    });

    test("a worker runs in its source, and has a temporary folder of its own that goes with it", async () => {
      const [worker, sibling] = [await platform.start(image), await platform.start(image)];
      const { cwd, temp, source } = (await worker.run("where")).value;
      assert.equal(cwd, source);
      assert.notEqual(temp, (await sibling.run("where")).value.temp);
      const kept = (await worker.run("keep", "text")).value;
      assert.ok(kept.startsWith(temp));
      await platform.driver.stop(worker.id, 1_000);
      await worker.exit();
      await gone(sibling, "exists", temp);
    });

    test("a worker sees nothing of the platform or of another endpoint, and cannot change its code", async (t) => {
      const marker = `secret of another endpoint ${platform.dir}`;
      const other = await platform.start(await platform.image("other", `MARKER = ${JSON.stringify(marker)}`));
      const worker = await platform.start(image);
      if (!/namespace|container/.test(worker.started.isolation ?? ""))
        return t.skip("this machine offers no namespaces");
      for (const below of [platform.dataDir, "/opt/svc", "/run/svc"]) {
        assert.deepEqual((await worker.run("find", { below, text: marker })).value, [], below);
      }
      const { source } = (await other.run("where")).value;
      assert.notDeepEqual((await other.run("find", { below: source, text: marker })).value, []);
      assert.equal((await worker.run("change_source")).ok, false);
    });

    test("an exit, a signal and a lack of memory are reported in words", async () => {
      const exiting = await platform.start(image);
      exiting.begin("exit", 3);
      const { code, signal, reason } = await exiting.exit();
      assert.deepEqual({ code, signal, reason }, { code: 3, signal: null, reason: "exited with code 3" });

      const crashing = await platform.start(image);
      crashing.begin("signal", 11);
      assert.equal((await crashing.exit()).reason, "killed by SIGSEGV");

      const [hungry, sibling] = [await platform.start(image), await platform.start(image)];
      const eating = hungry.begin("eat", 3);
      const end = await Promise.race([
        hungry.exit().then((exit) => exit.reason),
        platform.resultOf(hungry.id, eating).then(({ ok, value }) => (ok ? "it got it" : value.error_type)),
      ]);
      // Where the kernel has no group for each worker, Python meets the limit itself.
      assert.match(end, /^killed: memory limit 2 GB of cpu3c-1-2$|MemoryError/);
      assert.equal((await sibling.run("echo", 1)).value, 1);

      const greedy = await platform.start(await platform.image("greedy"));
      greedy.begin("share", 3);
      assert.equal((await greedy.exit()).reason, "killed: memory limit 2 GB of cpu3c-1-2");
    });

    test("a worker that is stopped ends, at the latest when the grace is over", async () => {
      const polite = await platform.start(image);
      await platform.driver.stop(polite.id, 60_000);
      const { code, signal } = await polite.exit();
      assert.ok(code === 0 || signal === "SIGTERM", `${code} ${signal}`);
      assert.ok(!(await platform.driver.list())?.includes(polite.id));

      const stubborn = await platform.start(image);
      stubborn.begin("ignore_term");
      await stubborn.printed();
      const began = performance.now();
      await platform.driver.stop(stubborn.id, 300);
      assert.equal((await stubborn.exit()).reason, "killed: it did not stop within the grace period");
      assert.ok(performance.now() - began >= 290);
    });

    test("a worker that is told to stop while it reads ends at once", async () => {
      const worker = await platform.start(image);
      assert.equal((await worker.run("term_while_reading")).ok, true);
      await platform.driver.stop(worker.id, 60_000);
      const { code, reason } = await worker.exit();
      assert.equal(code, 0, reason);
    });

    test("what a worker started ends with it, also when it left its session", async () => {
      const [worker, sibling] = [await platform.start(image), await platform.start(image)];
      const pid = (await worker.run("leave_child")).value;
      assert.equal((await sibling.run("alive", pid)).value, true);
      await platform.driver.stop(worker.id, 0);
      await worker.exit();
      await gone(sibling, "alive", pid);
    });

    test("a worker that is stopped while it comes up ends, and the endpoint goes on", async () => {
      const fresh = await platform.image("early");
      const spec = platform.spec(fresh);
      const starting = platform.driver.start(spec);
      assert.ok((await platform.driver.list())?.includes(spec.workerId));
      await platform.driver.stop(spec.workerId, 0);
      await Promise.all([starting, platform.exitOf(spec.workerId)]);
      assert.equal((await (await platform.start(fresh)).run("echo", 1)).value, 1);
    });

    test("a handler that cannot be imported is reported with its error", async () => {
      const broken = await platform.image("broken", "import no_such_package");
      const spec = platform.spec(broken);
      await platform.driver.start(spec);
      assert.match(await platform.bootFailureOf(spec.workerId), /no_such_package/);
      await platform.exitOf(spec.workerId);
    });

    test("a retired image's workers go on; the next revision comes up beside them", async () => {
      const fresh = await platform.image("retired");
      const old = await platform.start(fresh);
      await platform.driver.retire(fresh.endpointId, "r1");
      const next = await platform.start(fresh, { revision: "r2" });
      assert.equal((await old.run("echo", "old")).value, "old");
      assert.equal((await next.run("echo", "new")).value, "new");
      await platform.driver.stop(old.id, 1_000);
      await old.exit();
      assert.equal((await next.run("echo", "still")).value, "still");
    });
  });

  test(`${name}: a full machine refuses a worker until another one ends`, { skip: setup.skip }, async (t) => {
    const platform = new DriverPlatform(setup.make, setup.tls);
    t.after(() => platform.close());
    await platform.open({ vcpus: 1 });
    const image = await platform.image("full");
    const first = await platform.start(image);
    const refused = await platform.driver.start(platform.spec(image)).then(
      () => undefined,
      (error: SvcError) => error,
    );
    assert.equal(refused?.code, "NO_CAPACITY", String(refused));
    assert.deepEqual(await platform.driver.list(), [first.id]);
    await platform.driver.stop(first.id, 0);
    await first.exit();
    await platform.start(image);
  });

  test(`${name}: workers and their work survive the platform's crash`, { skip: setup.skip }, async (t) => {
    const platform = new DriverPlatform(setup.make, setup.tls);
    t.after(() => platform.close());
    await platform.open();
    const image = await platform.image("survivor");
    const worker = await platform.start(image);
    const pid = (await worker.run("pid")).value;
    const job = worker.begin("slow", 0.5);
    await platform.crash();
    // Longer than a launcher's first pauses: it dials in before the driver knows of it.
    await platform.open({}, 600);
    assert.deepEqual(await platform.driver.list(), [worker.id]);
    assert.equal(platform.ledger.capacity.shares.get(worker.id)?.vcpus, 1);
    const back = await platform.returned(worker.id);
    assert.deepEqual(await platform.resultOf(worker.id, job), { ok: true, value: "done" });
    assert.equal((await back.run("pid")).value, pid);
    await platform.driver.prepare(image, () => {});
    assert.equal((await platform.start(image)).started.how, "fork");
    await platform.driver.stop(worker.id, 0);
    await back.exit();
    assert.equal(platform.ledger.capacity.shares.get(worker.id), undefined);
  });

  test(`${name}: a driver that closes with all its workers leaves none`, { skip: setup.skip }, async (t) => {
    const platform = new DriverPlatform(setup.make, setup.tls);
    t.after(() => platform.close());
    await platform.open();
    const image = await platform.image("all");
    await platform.start(image);
    await platform.start(image);
    await platform.driver.close({ stopAll: true });
    await platform.crash();
    await platform.open();
    assert.deepEqual(await platform.driver.list(), []);
  });
}

/** Asks until what was there is not there any more. */
async function gone(worker: TestWorker, question: string, value: unknown): Promise<void> {
  const end = Date.now() + 60_000;
  while ((await worker.run(question, value)).value) {
    assert.ok(Date.now() < end, `${question} ${value} is still true`);
    await delay(POLL_MS);
  }
}
