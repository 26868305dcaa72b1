/** What `svc deploy --preview` says about engines it cannot use, before anything is built. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { unusable } from "../../../src/cli/preview/engine.ts";
import { type Outcome, sandbox } from "../run-svc.ts";

const HELLO = `from svc import Endpoint
@Endpoint(name="hello"SETTINGS)
def hello(): return "hi"
`;

interface FakeEngine {
  readonly info?: object;
  /** Tag → architecture. */
  readonly images?: Readonly<Record<string, string>>;
}

/** The few answers of the engine's API that come before a container is made, on a socket of its own. */
async function fakeEngine(t: TestContext, { info, images = {} }: FakeEngine): Promise<string> {
  const dir = await mkdtemp(path.join(tmpdir(), "svc-engine-"));
  const socket = path.join(dir, "docker.sock");
  const server = createServer((req, res) => {
    const url = decodeURIComponent(req.url!.split("?")[0]!);
    const json = (status: number, body: object) => res.writeHead(status).end(JSON.stringify(body));
    const image = /^\/images\/(.+)\/json$/.exec(url)?.[1];
    if (url === "/info") json(200, { OSType: "linux", Architecture: "x86_64", ...info });
    else if (url === "/images/json") json(200, [{ RepoTags: Object.keys(images) }]);
    else if (image !== undefined && image in images) json(200, { Architecture: images[image] });
    else if (image !== undefined) json(404, { message: "no such image" });
    else if (url === "/images/create") json(404, { message: "pull access denied for it" });
    else json(200, []);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await rm(dir, { recursive: true, force: true });
  });
  return `unix://${socket}`;
}

/** Runs a preview of one endpoint against that engine, which fails; before anything is built unless `builds`. */
async function previewOn(
  dockerHost: string,
  settings = "",
  env: Record<string, string> = {},
  builds = false,
): Promise<Outcome> {
  const box = await sandbox();
  await writeFile(path.join(box.cwd, "hello.py"), HELLO.replace("SETTINGS", settings));
  const outcome = await box.svc(["deploy", "--preview"], { env: { DOCKER_HOST: dockerHost, ...env } });
  assert.equal(outcome.code, 1, outcome.stderr);
  assert.equal(outcome.stdout, "");
  assert.doesNotMatch(outcome.stderr, /\n\s+at .*\.ts|\.js:\d/, "no traceback");
  assert.equal(existsSync(path.join(box.cwd, ".svc", "artifact.tar.gz")), builds);
  return outcome;
}

test("A Docker engine that does not run is said, with how to start it", async () => {
  const { stderr } = await previewOn("unix:///nowhere/docker.sock");
  assert.match(stderr, /^error: The Docker engine does not run at unix:\/\/\/nowhere\/docker.sock\.\n {2}Start it: /m);
});

test("No Docker, and a user who may not use it, have messages of their own", () => {
  const nothing = unusable(Object.assign(new Error("x"), { code: "ENOENT" }), { PATH: "/nowhere" });
  assert.match(`${nothing.message} ${nothing.help}`, /Docker is not installed.*Install it/);
  const forbidden = unusable(Object.assign(new Error("x"), { code: "EACCES" }), { PATH: "/nowhere" });
  assert.match(`${forbidden.message} ${forbidden.help}`, /may not use the Docker engine.*group docker/);
});

test("An engine on another machine is refused: a preview's ports are on this one", async () => {
  const { stderr } = await previewOn("tcp://build.example:2375");
  assert.match(stderr, /DOCKER_HOST names an engine on another machine: tcp:\/\/build.example:2375/);
});

test("An engine for containers of another system is refused", async (t) => {
  const { stderr } = await previewOn(await fakeEngine(t, { info: { OSType: "windows" } }));
  assert.match(stderr, /runs windows containers; endpoints need Linux/);
});

test("A base image that is missing is named with its endpoints and the command that makes it", async (t) => {
  const { stderr } = await previewOn(await fakeEngine(t, {}));
  assert.match(stderr, /^error: This machine has no image svc\/worker-cpu:latest, which hello needs\.$/m);
  assert.match(stderr, /^ {2}Make it with svc platform images build\.$/m);
});

test("An image of one's own that is neither here nor to be pulled is named with both reasons", async (t) => {
  const { stderr } = await previewOn(await fakeEngine(t, {}), ', image="acme/own:1"');
  assert.match(stderr, /no image acme\/own:1, which hello needs, and cannot pull it: .*pull access denied for it\./);
});

test("An image for another processor is refused by name", async (t) => {
  const engine = await fakeEngine(t, { images: { "svc/worker-cpu:latest": "arm64" } });
  const { stderr } = await previewOn(engine);
  assert.match(stderr, /The image svc\/worker-cpu:latest, which hello needs, is for arm64; this machine is amd64\./);
});

test("An engine on another processor cannot run installed dependencies, and that is said before they are installed", async (t) => {
  const engine = await fakeEngine(t, {
    info: { Architecture: "aarch64" },
    images: { "svc/worker-cpu:latest": "arm64" },
  });
  const { stderr } = await previewOn(engine, ', dependencies=["six"]');
  assert.match(stderr, /dependencies for Linux amd64, and this Docker engine runs on arm64: hello cannot be previewed/);
});

test("a GPU endpoint is previewed in the image of CPU endpoints where none for GPUs was made", async (t) => {
  const gpu = ', gpu="ANY", python_version="3.11"';
  const cpuOnly = await fakeEngine(t, { images: { "svc/worker-cpu:latest": "amd64" } });
  const { stderr } = await previewOn(cpuOnly, gpu, {}, true);
  assert.match(
    stderr,
    /no image svc\/worker-gpu:latest, which hello needs: svc\/worker-cpu:latest stands in, on the CPU\./,
  );
  assert.match(stderr, /svc platform images build --gpu/);
  const none = await previewOn(await fakeEngine(t, {}), gpu);
  assert.match(none.stderr, /error: This machine has no image svc\/worker-gpu:py3.11/);
});
