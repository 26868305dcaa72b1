/** Which images endpoints run in, what is said of those that do not fit, and how the default ones are built. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import tar from "tar-stream";
import { CPU_IMAGE } from "../../src/domain/endpoint.ts";
import type { SvcError } from "../../src/domain/errors.ts";
import { IMAGE_BUILD_LINES } from "../../src/domain/limits.ts";
import { type RegistryLogin, registryOf } from "../../src/domain/registry.ts";
import { buildOnImage, builtName, dockerfileOf } from "../../src/drivers/docker/image-build.ts";
import { imageCandidates, pullImage } from "../../src/drivers/docker/image-check.ts";
import { isMet } from "../../src/drivers/docker/requirement.ts";
import { DockerDriver } from "../../src/drivers/docker.ts";
import type { WorkerImage } from "../../src/drivers/worker-driver.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { DriverPlatform } from "../conformance/driver-platform.ts";
import { dockerForTests } from "../docker.ts";

const docker = await dockerForTests();
const { skip, engine } = docker;
const ROOT = path.resolve(import.meta.dirname, "../..");
const svc = (args: readonly string[], env: Record<string, string> = {}) =>
  runProcess(path.join(ROOT, "bin/svc"), args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, CI: "1", NO_COLOR: "1", ...env },
  });

async function openPlatform(t: TestContext, cpuImage: string | undefined = docker.image): Promise<DriverPlatform> {
  const platform = new DriverPlatform(
    (parts) =>
      new DockerDriver({
        ...parts,
        volumesDisk: openVolumesDisk(path.join(parts.dataDir, "volumes"), () => {}),
        serveCalls: async (host) => `http://${host}:1`,
        pythonPath: path.join(ROOT, "python/src"),
        env: process.env,
        images: { cpu: cpuImage, gpu: cpuImage },
        network: "",
        hosts: {},
        labels: {},
        isolation: "standard",
      }),
  );
  await platform.open();
  t.after(() => platform.close());
  return platform;
}

/** What is wrong with the image of an endpoint, in the words of the error. */
async function problem(platform: DriverPlatform, changes: Partial<WorkerImage>): Promise<string> {
  const image = await platform.image("fine");
  const error = await platform.driver
    .prepare({ ...image, ...changes }, () => {})
    .then(
      () => undefined,
      (thrown: SvcError) => thrown,
    );
  assert.ok(error, "it was not refused");
  return `${error.code} ${error.message} ${error.help}`;
}

/** An image of the test's own. */
async function imageOf(
  t: TestContext,
  name: string,
  dockerfile: string,
  files: Record<string, string> = {},
): Promise<string> {
  const pack = tar.pack();
  for (const [file, text] of Object.entries({ Dockerfile: dockerfile, ...files })) pack.entry({ name: file }, text);
  pack.finalize();
  const tag = `svc-test/${name}:${process.pid}`;
  const stream = await engine.buildImage(Readable.from([await buffer(pack)]), { t: tag });
  await new Promise<void>((resolve, reject) => {
    engine.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
  });
  t.after(() =>
    engine
      .getImage(tag)
      .remove({ force: true })
      .catch(() => {}),
  );
  return tag;
}

test("A custom image brings its own packages and variables; it needs nothing of ours", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const tag = await imageOf(
    t,
    "custom",
    `FROM ${docker.image}
COPY ownpackage.py /usr/lib/python3/dist-packages/
ENV MODEL_HOME=/models
USER root
ENTRYPOINT ["/bin/false"]
HEALTHCHECK CMD /bin/false
`,
    { "ownpackage.py": "ANSWER = 42\n" },
  );
  const image = { ...(await platform.image("custom")), imageName: tag };
  await platform.driver.prepare(image, () => {});
  const worker = await platform.start(image);
  assert.equal((await worker.run("module", "ownpackage")).value, 42);
  assert.equal((await worker.run("env")).value.MODEL_HOME, "/models");
  assert.match((await worker.run("read", "/proc/self/status")).value, /^Uid:\t(?!0\t)/m);
});

test("A missing image names what to do: build it, or pull it", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const custom = await problem(platform, { imageName: "svc-test/never-made:1" });
  assert.match(custom, /^IMAGE_MISSING .*svc-test\/never-made:1 is not on this machine and cannot be pulled/);
  assert.match(custom, /docker pull/);
  assert.deepEqual(imageCandidates(CPU_IMAGE, "3.12", { cpu: undefined, gpu: undefined }), [
    "svc/worker-cpu:py3.12",
    "svc/worker-cpu:latest",
  ]);
  assert.deepEqual(imageCandidates(CPU_IMAGE, "3.12", { cpu: "mine:1", gpu: undefined }), ["mine:1"]);
});

test("An image that does not fit is refused before a container starts, with the reason", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const lacking = await problem(platform, { baseDependencies: ["numpy", "torch>=2"] });
  assert.match(lacking, /^IMAGE_UNSUITABLE .* lacks torch>=2, which "fine" needs/);
  assert.match(lacking, /svc platform images build --packages "numpy,torch>=2"/);
  assert.match(await problem(platform, { baseDependencies: ["numpy<1"] }), /lacks numpy<1 \(it has \d/);
  const otherPython = await problem(platform, { pythonVersion: "3.14", dependencyLayer: "0".repeat(64) });
  assert.match(otherPython, /IMAGE_UNSUITABLE .* has Python 3\.11, .* were built for 3\.14/);

  const empty = await importTar(t, "no-python", [{ name: "etc/nothing", text: "" }]);
  assert.match(await problem(platform, { imageName: empty }), /IMAGE_UNSUITABLE .* has no python3 that runs/);
  const foreign = await loadForeign(t);
  const said = await problem(platform, { imageName: foreign });
  assert.match(said, /IMAGE_UNSUITABLE .* is built for s390x, this machine is (amd64|arm64)/);
});

/** An image whose only layer holds these files. */
async function importTar(t: TestContext, name: string, files: readonly { name: string; text: string }[]) {
  const pack = tar.pack();
  for (const file of files) pack.entry({ name: file.name }, file.text);
  pack.finalize();
  const stream = await engine.importImage(Readable.from([await buffer(pack)]), {
    repo: `svc-test/${name}`,
    tag: `${process.pid}`,
  });
  await new Promise((resolve) => engine.modem.followProgress(stream, resolve));
  const tag = `svc-test/${name}:${process.pid}`;
  t.after(() =>
    engine
      .getImage(tag)
      .remove({ force: true })
      .catch(() => {}),
  );
  return tag;
}

/** An image for another processor, as `docker save` would write it. */
async function loadForeign(t: TestContext): Promise<string> {
  const { createHash } = await import("node:crypto");
  const inner = tar.pack();
  inner.entry({ name: "x" }, "");
  inner.finalize();
  const layer = await buffer(inner);
  const diffId = `sha256:${createHash("sha256").update(layer).digest("hex")}`;
  const config = { architecture: "s390x", os: "linux", config: {}, rootfs: { type: "layers", diff_ids: [diffId] } };
  const tag = `svc-test/foreign:${process.pid}`;
  const outer = tar.pack();
  outer.entry({ name: "config.json" }, JSON.stringify(config));
  outer.entry({ name: "layer.tar" }, layer);
  outer.entry(
    { name: "manifest.json" },
    JSON.stringify([{ Config: "config.json", RepoTags: [tag], Layers: ["layer.tar"] }]),
  );
  outer.finalize();
  const stream = await engine.loadImage(Readable.from([await buffer(outer)]));
  await new Promise((resolve) => engine.modem.followProgress(stream, resolve));
  t.after(() =>
    engine
      .getImage(tag)
      .remove({ force: true })
      .catch(() => {}),
  );
  return tag;
}

test("svc platform images build makes an image from a root file system's folder, and list shows it", {
  skip: skip || (process.getuid?.() === 0 ? false : "only root can unpack a root file system"),
}, async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-rootfs-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const root = path.join(dir, "root");
  mkdirSync(root);
  execFileSync("tar", ["-C", root, "-xf", docker.rootfs]);
  const tag = `svc-test/built:${process.pid}`;
  const platform = await openPlatform(t, tag);
  const remove = (name: string) =>
    t.after(() =>
      engine
        .getImage(name)
        .remove({ force: true })
        .catch(() => {}),
    );
  const build = async (...args: string[]) => {
    const { code, stdout, stderr } = await svc([
      "platform",
      "images",
      "build",
      "--packages",
      "none",
      "--json",
      ...args,
    ]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  };
  remove(`${tag}-gpu`);
  remove(tag);
  const image = await build("--rootfs", root, "--tag", tag);
  assert.deepEqual([image.names, image.kind, image.python, image.packages], [[tag], "cpu", "3.11", []]);
  const listed = await svc(["platform", "images", "list", "--json"]);
  assert.ok(
    JSON.parse(listed.stdout).some(({ names }: { names: string[] }) => names.includes(tag)),
    listed.stdout,
  );
  assert.equal((await build("--gpu", "--base", tag, "--tag", `${tag}-gpu`)).kind, "gpu");
  const worker = await platform.start(await platform.image("on-it"));
  assert.equal((await worker.run("echo", 1)).value, 1);
});

test("svc platform images build says plainly what is wrong", { skip }, async (t) => {
  const run = async (...args: string[]) => {
    const { code, stderr } = await svc(["platform", "images", "build", ...args]);
    assert.notEqual(code, 0);
    assert.doesNotMatch(stderr, /\n\s+at .*:\d+:\d+/);
    return stderr;
  };
  assert.match(await run("--base", "a", "--rootfs", "b"), /exclude each other/);
  assert.match(await run("--rootfs", "/no/such/folder"), /\/no\/such\/folder is not there/);
  assert.match(await run("--base", "svc-test/never-made:1"), /cannot be pulled.*[\s\S]*--rootfs/);
  const broken = path.join(mkdtempSync(path.join(tmpdir(), "svc-rootfs-")), "broken.tar");
  t.after(() => rmSync(path.dirname(broken), { recursive: true, force: true }));
  execFileSync("sh", ["-c", `echo no tar > ${broken}`]);
  assert.match(await run("--rootfs", broken), /cannot be imported|has no python3/);
});

test("An engine that cannot be used is one clear message, by its kind", { skip }, async () => {
  const down = await svc(["platform", "images", "list"], { DOCKER_HOST: "unix:///tmp/svc-no-such.sock" });
  assert.match(down.stderr, /The Docker daemon does not run[\s\S]*svc-no-such\.sock[\s\S]*Start it/);
  if (process.getuid?.() !== 0) return;
  const forbidden = await runProcess(
    "setpriv",
    ["--reuid=65534", "--clear-groups", process.execPath, "bin/svc.ts", "platform", "images", "list"],
    {
      cwd: ROOT,
      env: { PATH: process.env.PATH, HOME: "/nonexistent", CI: "1", NO_COLOR: "1" },
    },
  );
  assert.match(forbidden.stderr, /This user may not use Docker[\s\S]*usermod -aG docker/);
});

test("A requirement is met by a version as indexes say", () => {
  const met = [
    "numpy",
    "numpy>=1.26",
    "numpy>=1.26,<3",
    "numpy==2.*",
    "numpy~=2.0",
    "numpy[extra]!=2.2",
    "Numpy (>=2.1)",
  ];
  for (const requirement of met) assert.ok(isMet(requirement, "2.1.3"), requirement);
  for (const requirement of ["numpy>=3", "numpy<2.1.3", "numpy==2.1", "numpy~=2.2", "numpy!=2.*", "numpy>2.1.3"]) {
    assert.ok(!isMet(requirement, "2.1.3"), requirement);
  }
  assert.ok(isMet("torch==2.5.1", "2.5.1+cu124"));
  assert.ok(isMet('numpy>=9; python_version < "3"', "2.1.3"));
});

test("What was built for an endpoint stays while a build needs it", { skip }, async (t) => {
  const platform = await openPlatform(t);
  const image = { ...(await platform.image("fine")), imageSteps: [{ env: { TEST: String(process.pid) } }] };
  await platform.driver.prepare(image, () => {});
  const built = async () => {
    const found = await engine.listImages({ filters: { label: ["svc.built=1"] } });
    return found.filter(({ RepoTags }) => RepoTags?.some((tag) => tag === name)).length;
  };
  const { Id } = await engine.getImage(docker.image).inspect();
  const name = builtName(Id, image.imageSteps);
  const later = Date.now() + 60_000;
  await platform.driver.removeUnused([image], later);
  await platform.driver.removeUnused([], 0);
  assert.equal(await built(), 1, "needed, or younger than that");
  await platform.driver.removeUnused([], later);
  assert.equal(await built(), 0);
});

test("Why a step failed is told, however much it had said before on its other output", { skip }, async () => {
  const baseId = (await engine.getImage(docker.image).inspect()).Id;
  const build = (n: number) =>
    buildOnImage({
      ...{ engine, baseId, labels: {}, proxies: {}, endpointName: "x", report: () => {} },
      steps: [{ run: `for i in $(seq ${2 * IMAGE_BUILD_LINES}); do echo ${n} $i; done; echo the reason >&2; exit 9` }],
    });
  const failed = await Promise.allSettled(Array.from({ length: 8 }, (_, n) => build(n)));
  for (const result of failed) assert.match((result as PromiseRejectedResult).reason.help, /the reason/);
});

test("Each step becomes one instruction, whatever its texts hold", () => {
  const file = dockerfileOf("sha256:0", [
    { apt: ["ffmpeg", "git=1:2"] },
    { run: 'echo "a"\nFROM evil\nRUN --mount=type=bind x \\' },
    { env: { A: '" B="c\\', C: "$PATH" } },
  ]);
  const lines = file.trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => line.split(" ")[0]),
    ["FROM", "USER", "RUN", "RUN", "ENV", "ENV"],
  );
  assert.deepEqual(JSON.parse(lines[2]!.slice(4)).slice(3), ["apt", "ffmpeg", "git=1:2"]);
  assert.equal(JSON.parse(lines[3]!.slice(4))[2], 'exec 2>&1; echo "a"\nFROM evil\nRUN --mount=type=bind x \\');
  assert.deepEqual(lines.slice(4), ['ENV A="\\" B=\\"c\\\\"', 'ENV C="\\$PATH"']);
});

test("an image is pulled with the credentials of its endpoint, which go to its own registry", { skip }, async () => {
  const seen: string[] = [];
  // It knows no image: what counts is who asks.
  const registry = createServer((request, response) => {
    const { authorization } = request.headers;
    seen.push(`${request.url} ${authorization ?? "nobody"}`);
    const known = authorization === `Basic ${Buffer.from("ada:secret").toString("base64")}`;
    if (!known) response.setHeader("www-authenticate", 'Basic realm="test"');
    response.setHeader("content-type", "application/json");
    response.writeHead(!known ? 401 : request.url === "/v2/" ? 200 : 404);
    const [code, message] = known ? ["MANIFEST_UNKNOWN", "manifest unknown"] : ["UNAUTHORIZED", "unauthorized"];
    response.end(JSON.stringify({ errors: [{ code, message }] }));
  }).listen(0, "127.0.0.1");
  await once(registry, "listening");
  const name = `127.0.0.1:${(registry.address() as AddressInfo).port}/private/words:1`;
  const pulled = (login?: RegistryLogin) =>
    pullImage(engine, name, () => {}, login).then(
      () => assert.fail("it was pulled"),
      (error: SvcError) => `${error.code} ${error.message}`,
    );
  try {
    assert.match(await pulled(), /IMAGE_MISSING .*(unauthorized|no basic auth)/);
    assert.ok(seen.every((line) => line.endsWith("nobody")));
    const refused = await pulled({ username: "ada", password: "wrong" });
    assert.match(refused, /IMAGE_MISSING .*unauthorized/i);
    assert.ok(!refused.includes("wrong"));
    seen.length = 0;
    assert.match(await pulled({ username: "ada", password: "secret" }), /IMAGE_MISSING .*(not found|unknown)/i);
    assert.ok(
      seen.some((line) => line.startsWith("/v2/private/words/manifests/1 Basic ")),
      seen.join("\n"),
    );
  } finally {
    registry.close();
    registry.closeAllConnections();
  }
});

test("the registry of an image is the host of its name, or Docker Hub", () => {
  for (const [name, registry] of [
    ["words", "https://index.docker.io/v1/"],
    ["someone/words:1", "https://index.docker.io/v1/"],
    ["ghcr.example/someone/words", "ghcr.example"],
    ["localhost/words", "localhost"],
    ["host:5000/words", "host:5000"],
  ]) {
    assert.equal(registryOf(name!), registry, name);
  }
});
