/** System packages and images that the platform builds; packages come from a repository that lies in the base image. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import tar from "tar-stream";
import { startSvcRun } from "../dev/svc-run.ts";
import { dockerForTests } from "../docker.ts";
import { project, ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";
import { PULL_PROGRAM } from "./pull-program.ts";

const docker = await dockerForTests();
const PAGE = readFileSync(path.join(ROOT, "docs/reference/images.md"), "utf8").match(/```python\n(.*?)```/s)![1]!;
const VERSION = "7:5.1.6-0+deb12u1";

/** The worker image for tests, with a repository of one package in it: a program that says what it is. */
async function baseImage(t: TestContext): Promise<string> {
  const dir = tempDir(t);
  const root = path.join(dir, "deb");
  mkdirSync(path.join(root, "DEBIAN"), { recursive: true });
  mkdirSync(path.join(root, "usr/bin"), { recursive: true });
  chmodSync(path.join(root, "DEBIAN"), 0o755);
  const control = `Package: ffmpeg\nVersion: ${VERSION}\nArchitecture: all\nMaintainer: nobody <n@example.com>\nDescription: test\n`;
  writeFileSync(path.join(root, "DEBIAN/control"), control);
  writeFileSync(path.join(root, "usr/bin/ffmpeg"), `#!/bin/sh\necho ffmpeg version ${VERSION}\n`, { mode: 0o755 });
  execFileSync("dpkg-deb", ["--root-owner-group", "--build", root, path.join(dir, "ffmpeg.deb")]);
  const deb = readFileSync(path.join(dir, "ffmpeg.deb"));
  const digest = createHash("sha256").update(deb).digest("hex");
  const pack = tar.pack();
  const dockerfile = `FROM ${docker.image}\nUSER 0\nCOPY repo /repo\nRUN rm -rf /etc/apt/sources.list* && echo 'deb [trusted=yes] file:/repo ./' > /etc/apt/sources.list\n`;
  pack.entry({ name: "Dockerfile" }, dockerfile);
  pack.entry({ name: "repo/ffmpeg.deb" }, deb);
  pack.entry({ name: "repo/Packages" }, `${control}Filename: ./ffmpeg.deb\nSize: ${deb.length}\nSHA256: ${digest}\n\n`);
  pack.finalize();
  const tag = `svc-test/with-repository:${process.pid}`;
  const { engine } = docker;
  const stream = await engine.buildImage(Readable.from([await buffer(pack)]), { t: tag });
  await new Promise<void>((resolve, reject) => {
    engine.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
  });
  return tag;
}

/** What was built of it, and it itself; after the containers. */
function removeAfter(t: TestContext, platform: TestPlatform, tag: string): void {
  t.after(async () => {
    const built = await docker.engine.listImages({ filters: { label: [`svc.data-dir=${platform.dataDir}`] } });
    for (const { Id } of built) await docker.engine.getImage(Id).remove({ force: true });
    await docker.engine.getImage(tag).remove({ force: true });
  });
}

async function deploy(platform: TestPlatform, source: string, t: TestContext) {
  return platform.svc(["deploy"], { cwd: project(t, { "main.py": source }) });
}

async function output(platform: TestPlatform, name: string): Promise<unknown> {
  const { url } = (await platform.endpoints()).find((one) => one.name === name)!;
  const answer = await platform.call(`${url}/runsync`, { body: { input: {} } });
  return answer.json.output ?? answer.text;
}

const TRICKY = String.raw`a "quoted" $HOME \ {b} 'c' #`;
const MANY = `
import os
from svc import Endpoint, Image
BASE = Image.debian().env(TRICKY=${JSON.stringify(TRICKY)}, FIRST="1")
PACKAGES = ["ffmpeg=${VERSION}"]
LINES = """printf '%s' "$TRICKY" > /seen
echo 'RUN [\\"no\\"]' >> /seen
id -u >> /seen"""

@Endpoint(name="many", image=BASE.apt(*PACKAGES).run(LINES).env(FIRST="2"), system_dependencies=["ffmpeg"], env={"FIRST": "3"})
def many():
    return [open("/seen").read(), os.environ["TRICKY"], os.environ["FIRST"], os.getuid() != 0]
`;

test("Packages and steps are built into the endpoint's image, once, and a build that fails says why", {
  skip: docker.skip,
}, async (t) => {
  const image = await baseImage(t);
  const platform = await startPlatform(t, { ...docker.env, SVC_CPU_IMAGE: image });
  removeAfter(t, platform, image);
  const first = await deploy(platform, PAGE, t);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stderr, /building its image/);
  assert.equal(await output(platform, "version"), `ffmpeg version ${VERSION}`);
  assert.equal(await output(platform, "model"), "large");

  const again = await deploy(platform, `${PAGE}\n# another revision`, t);
  assert.equal(again.code, 0, again.stderr);
  assert.doesNotMatch(again.stderr, /building its image/, "what is built is there");

  const many = await deploy(platform, MANY, t);
  assert.equal(many.code, 0, many.stderr);
  assert.deepEqual(await output(platform, "many"), [`${TRICKY}RUN ["no"]\n0\n`, TRICKY, "3", true]);

  const missing = await deploy(platform, PAGE.replaceAll('"ffmpeg"]', '"no-such-package"]'), t);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /The image of endpoint "version" could not be built: .*returned a non-zero code: 100/);
  assert.match(missing.stderr, /E: Unable to locate package no-such-package/);
  const failing = await deploy(platform, PAGE.replace('"mkdir /models"', '"echo no room; exit 9"'), t);
  assert.equal(failing.code, 1);
  assert.match(failing.stderr, /non-zero code: 9/);
  assert.match(failing.stderr, /no room/);

  const cwd = project(t, { "main.py": PAGE });
  const local = await startSvcRun(t, platform, cwd);
  const live = await platform.call(`${local.url}/main/version/runsync`, { body: { input: {} } });
  assert.equal(live.json.output, `ffmpeg version ${VERSION}`, live.text);
});

test("Workers that are processes have the machine's packages: what it lacks is refused with the command that installs it", async (t) => {
  const platform = await startPlatform(t);
  const source = (packages: string) => `
import subprocess
from svc import Endpoint
@Endpoint(name="shell", system_dependencies=${packages})
def shell():
    return subprocess.run(["bash", "-c", "echo here"], capture_output=True, text=True).stdout
`;
  const there = await deploy(platform, source('["bash"]'), t);
  assert.equal(there.code, 0, there.stderr);
  assert.equal(await output(platform, "shell"), "here\n");
  const lacks = await deploy(platform, source('["bash=0.1", "no-such-package"]'), t);
  assert.equal(lacks.code, 1);
  assert.match(lacks.stderr, /needs bash=0\.1 \(it has .*\), no-such-package, which the machine of its workers lacks/);
  assert.match(lacks.stderr, /sudo apt-get install -y bash=0\.1 no-such-package/);
  const image = await deploy(platform, PAGE.replace("system_dependencies", "env=None, system_dependencies"), t);
  assert.match(image.stderr, /Endpoint "model": image=Image\(…\) needs containers.*SVC_DRIVER=docker/);
});

const GENERATION = `
import os
from svc import Endpoint, Image

@Endpoint(name="built", image=Image.debian().env(STEP="1"), workers=(0, 1))
def built():
    return os.environ["MODE"]

Endpoint(name="program", image="TAG", workers=(0, 1))
`;

interface Said {
  readonly mode: string;
}

/** Stands for a worker image that is made anew under its name. Resolves its id. */
async function baseOfGeneration(tag: string, generation: string): Promise<string> {
  const { engine } = docker;
  const pack = tar.pack();
  pack.entry(
    { name: "Dockerfile" },
    `FROM ${docker.image}\nENV MODE=${generation}\nCOPY worker.py /\nCMD ["python3", "/worker.py"]\n`,
  );
  pack.entry({ name: "worker.py" }, PULL_PROGRAM);
  pack.finalize();
  const stream = await engine.buildImage(Readable.from([await buffer(pack)]), { t: tag });
  await new Promise<void>((resolve, reject) => {
    engine.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
  });
  return (await engine.getImage(tag).inspect()).Id;
}

test("An image that is made anew or removed while the platform runs is prepared again at the next start", {
  skip: docker.skip,
}, async (t) => {
  const tag = `svc-test/generation:${process.pid}`;
  const first = await baseOfGeneration(tag, "first");
  const platform = await startPlatform(t, { ...docker.env, SVC_CPU_IMAGE: tag });
  removeAfter(t, platform, tag);
  const deployed = await deploy(platform, GENERATION.replace("TAG", tag), t);
  assert.equal(deployed.code, 0, deployed.stderr);
  const outputs = async () => [await output(platform, "built"), ((await output(platform, "program")) as Said).mode];
  assert.deepEqual(await outputs(), ["first", "first"]);

  await baseOfGeneration(tag, "second");
  const { engine } = docker;
  const filters = { label: [`svc.data-dir=${platform.dataDir}`] };
  for (const { Id } of await engine.listContainers({ all: true, filters })) {
    await engine.getContainer(Id).remove({ force: true });
  }
  for (const { Id } of await engine.listImages({ filters })) await engine.getImage(Id).remove({ force: true });
  await engine
    .getImage(first)
    .remove({ force: true })
    .catch(() => {}); // Gone with what was built on it.
  assert.deepEqual(await outputs(), ["second", "second"]);
});
