/** What the Docker driver's containers are like, as the engine shows them. */
import assert from "node:assert/strict";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { CONTAINER_EXTRA_BYTES } from "../../src/domain/limits.ts";
import { LABEL } from "../../src/drivers/docker/labels.ts";
import { platformIdOf } from "../../src/drivers/docker/platform-containers.ts";
import { DockerDriver } from "../../src/drivers/docker.ts";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { DriverPlatform } from "../conformance/driver-platform.ts";
import { dockerForTests } from "../docker.ts";

const docker = await dockerForTests();
const { skip, engine } = docker;
const GB = 1024 ** 3;

async function openPlatform(t: TestContext): Promise<DriverPlatform> {
  const platform = new DriverPlatform(
    (parts) =>
      new DockerDriver({
        ...parts,
        volumesDisk: openVolumesDisk(path.join(parts.dataDir, "volumes"), () => {}),
        serveCalls: async (host) => `http://${host}:1`,
        pythonPath: path.resolve(import.meta.dirname, "../../python/src"),
        env: process.env,
        images: { cpu: docker.image, gpu: docker.image },
        network: "",
        hosts: { friend: "127.0.0.1" },
        labels: { "test.label": "yes" },
        isolation: "standard",
      }),
  );
  await platform.open();
  t.after(() => platform.close());
  return platform;
}

async function containersOf(platform: DriverPlatform) {
  const label = [`${LABEL.platform}=${platformIdOf(platform.dataDir)}`];
  const found = await engine.listContainers({ all: true, filters: { label } });
  // One may be removed in this moment.
  const gone = (error: { statusCode?: number }) => {
    if (error.statusCode !== 404) throw error;
    return [];
  };
  const seen = found.map(({ Id }) =>
    engine
      .getContainer(Id)
      .inspect()
      .then((one) => [one], gone),
  );
  return (await Promise.all(seen)).flat();
}

/** Asks the engine again until it holds. */
async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, `never: ${what}`);
    await delay(50);
  }
}

test("All workers of an endpoint's revision share one container, whose limits follow their number", {
  skip,
}, async (t) => {
  const platform = await openPlatform(t);
  const image = await platform.image("sized");
  const workers = [await platform.start(image), await platform.start(image), await platform.start(image)];
  const sizedFor = async (count: number) => {
    const [container, ...more] = await containersOf(platform);
    assert.equal(more.length, 0);
    const { Memory, MemorySwap, CpuQuota, CpuPeriod, PidsLimit } = container!.HostConfig;
    const memory = count * 2 * GB + CONTAINER_EXTRA_BYTES;
    return (
      Memory === memory &&
      [memory, -1].includes(MemorySwap!) &&
      CpuQuota! / CpuPeriod! === count &&
      PidsLimit === 1024 * (count + 1)
    );
  };
  await until("limits of three workers", () => sizedFor(3));
  for (const worker of workers.slice(1)) await platform.driver.stop(worker.id, 1_000);
  await Promise.all(workers.slice(1).map((worker) => worker.exit()));
  await until("limits of one worker", () => sizedFor(1));
  assert.equal((await workers[0]!.run("echo", 1)).value, 1);
});

test("A container has no rights, no writable root, and shows no secret", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const worker = await platform.start(await platform.image("bare"), { env: { PASSWORD: "hunter2-in-a-test" } });
  const [container] = await containersOf(platform);
  const { HostConfig, Config, Mounts } = container!;
  assert.equal(HostConfig.ReadonlyRootfs, true);
  assert.equal(HostConfig.Init, true);
  assert.equal(HostConfig.Privileged, false);
  assert.deepEqual(HostConfig.CapDrop, ["ALL"]);
  assert.ok(HostConfig.SecurityOpt.includes("no-new-privileges:true"));
  assert.equal(HostConfig.NetworkMode, `svc-${platformIdOf(platform.dataDir)}`);
  assert.deepEqual(HostConfig.ExtraHosts, ["friend:127.0.0.1"]);
  assert.equal(Config.Labels["test.label"], "yes");
  assert.notEqual(Config.User.split(":")[0], "0");
  assert.deepEqual(
    Mounts.filter(({ RW }) => RW),
    [],
  );
  assert.doesNotMatch(JSON.stringify(container), /hunter2-in-a-test|svcw_/);

  const status = (await worker.run("read", "/proc/self/status")).value as string;
  assert.match(status, /^CapEff:\t0+$/m);
  assert.match(status, /^CapBnd:\t0+$/m);
  assert.match(status, /^NoNewPrivs:\t1$/m);
  for (const file of ["/etc/passwd", "/run/svc/x", "/opt/svc/python/x", "/x"]) {
    assert.equal((await worker.run("write", file)).ok, false, file);
  }
  assert.equal((await worker.run("write", "/tmp/x")).ok, true);
});

test("When a container is killed its workers are reported, and the next start makes a new one", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const image = await platform.image("killed");
  const workers = [await platform.start(image), await platform.start(image)];
  const [container] = await containersOf(platform);
  await engine.getContainer(container!.Id).kill();
  for (const worker of workers) {
    assert.match((await worker.exit()).reason, /^lost: its container ended with code 137|killed by SIGKILL$/);
  }
  assert.deepEqual(await platform.driver.list(), []);
  assert.equal((await (await platform.start(image)).run("echo", 1)).value, 1);
  await until("the dead container is removed", async () => (await containersOf(platform)).length === 1);
});

test("The container of a retired revision goes with its last worker", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const image = await platform.image("old");
  const worker = await platform.start(image);
  await platform.driver.retire(image.endpointId, "r1");
  assert.equal((await worker.run("echo", 1)).value, 1);
  await platform.driver.stop(worker.id, 1_000);
  await worker.exit();
  await until("no container is left", async () => (await containersOf(platform)).length === 0);
});

test("What a crashed platform left half-made is removed at the next start; other platforms' containers stay", {
  skip,
}, async (t) => {
  const [platform, neighbour] = await Promise.all([openPlatform(t), openPlatform(t)]);
  const image = await platform.image("mine");
  const worker = await platform.start(image);
  const other = await neighbour.start(await neighbour.image("theirs"));
  const Labels = { [LABEL.platform]: platformIdOf(platform.dataDir) };
  const never = await engine.createContainer({ Image: docker.image, Cmd: ["sleep", "60"], Labels });
  const deaf = await engine.createContainer({
    Image: docker.image,
    Cmd: ["sleep", "60"],
    Labels: { ...Labels, [LABEL.endpointId]: "x", [LABEL.revision]: "y", [LABEL.launcher]: "z" },
  });
  await deaf.start();
  await platform.crash();
  await platform.open();
  assert.deepEqual(await platform.driver.list(), [worker.id]);
  await until("both are removed", async () => {
    const left = (await containersOf(platform)).map(({ Id }) => Id);
    return !left.includes(never.id) && !left.includes(deaf.id);
  });
  assert.equal((await (await platform.returned(worker.id)).run("echo", 1)).value, 1);
  assert.equal((await other.run("echo", 2)).value, 2);
});
