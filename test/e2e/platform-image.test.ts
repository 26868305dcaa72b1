/**
 * The platform as containers, of what is handed out: deploy/platform/ with the engine, a Caddy of Debian and a compose of Debian. No
 * registry is reached: the base of both images is made here.
 */
// May take 10 minutes.
import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { type RequestOptions, request } from "node:https";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import WebSocket from "ws";
import { runProcess } from "../../src/lib/run-process.ts";
import { debianProgram } from "../debian-packages.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { type HandedOut, handedOut } from "../package.ts";
import { project, svc, tempDir } from "./platform.ts";

const APP = `import asyncio, os
from svc import Endpoint, WebSocket

@Endpoint(name="look", cpu="cpu3c-1-2", workers=(0, 1), volumes={"/files": "files"})
def look() -> dict:
    def writable(folder: str) -> bool:
        try:
            open(folder + "/x", "w").close()
            return True
        except OSError:
            return False
    data = os.listdir("/data")
    return {"uid": os.getuid(), "data": data, "root": writable("/usr/local"), "files": os.listdir("/files")}

api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(0, 1))

@api.get("/slowly")
async def slowly():
    for word in ("one", "two"):
        yield word
        await asyncio.sleep(30 if word == "one" else 0)

@api.post("/size")
def size(body: bytes) -> int:
    return len(body)

@api.websocket("/echo")
async def echo(socket: WebSocket):
    async for message in socket:
        await socket.send(message)
`;
const UPLOAD_BYTES = 96 * 1024 * 1024;
const CA = path.join(tmpdir(), "svc-ca.crt");
const PROJECT = `svc-platform-test-${process.pid}`;
const [IMAGE, CADDY_IMAGE, BASE] = ["platform", "caddy", "base"].map((name) => `${PROJECT}:${name}`) as [
  string,
  string,
  string,
];

const docker = await dockerForTests();
const compose = await debianProgram("docker-compose", "trixie", "usr/libexec/docker/cli-plugins/docker-compose");
const caddy = await debianProgram("caddy", "bookworm", "usr/bin/caddy");
const skip = docker.skip || ("missing" in compose && compose.missing) || ("missing" in caddy && caddy.missing);

let made: HandedOut;
let env: Record<string, string | undefined>;
let port: number;

async function composed(...args: string[]): Promise<string> {
  assert.ok("program" in compose);
  const { code, stdout, stderr } = await runProcess(compose.program, ["-p", PROJECT, ...args], {
    cwd: made.folder,
    env,
  });
  assert.equal(code, 0, `${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

const platformLog = () => composed("logs", "--no-log-prefix", "platform");

before(async () => {
  if (skip !== false || !("program" in caddy)) return;
  made = await handedOut();
  await engine("import", docker.rootfs, BASE);
  const context = path.join(path.dirname(caddy.program), "context");
  mkdirSync(context, { recursive: true });
  copyFileSync(caddy.program, path.join(context, "caddy"));
  const start = 'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile"]';
  const lines = [`FROM ${BASE}`, "COPY caddy /usr/bin/caddy", "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data", start];
  writeFileSync(path.join(context, "Dockerfile"), lines.join("\n"));
  await engine("build", "-t", CADDY_IMAGE, context);
  port = await freePort();
  env = {
    ...process.env,
    BASE,
    CADDY_IMAGE,
    SVC_IMAGE: IMAGE,
    SVC_DOMAIN: "localhost",
    SVC_PUBLIC_URL: `https://localhost:${port}`,
    CADDY_OPTIONS: "local_certs",
    HTTPS_PORT: `127.0.0.1:${port}`,
    HTTP_PORT: `127.0.0.1:${await freePort()}`,
  };
});

after(async () => {
  rmSync(CA, { force: true });
  if (env === undefined) return;
  await composed("down", "--volumes", "--timeout", "5").catch((error) => process.stderr.write(`${error}\n`));
  await runProcess("docker", ["rmi", "--force", IMAGE, CADDY_IMAGE, BASE], { env: process.env });
});

async function engine(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProcess("docker", args, { env: { ...process.env, DOCKER_BUILDKIT: "0" } });
  assert.equal(code, 0, `docker ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

describe("docker compose up, in the folder that make dist made", { skip }, () => {
  let key: string;
  let ca: string;
  let cli: Record<string, string>;
  let api: string;

  const run = async (t: TestContext, args: readonly string[], cwd: string) => {
    const { code, stdout, stderr } = await svc(args, { cwd, env: { ...cli, SVC_CONFIG_DIR: tempDir(t) } });
    assert.equal(code, 0, `svc ${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };
  const look = async (t: TestContext) => JSON.parse(await run(t, ["call", "look"], tempDir(t)));
  /** To a host of the platform's, whose name nobody's DNS knows. */
  const send = async (host: string, where: string, options: RequestOptions = {}, body?: Buffer) => {
    const headers = { host: `${host}:${port}`, authorization: `Bearer ${key}`, ...options.headers };
    return new Promise<IncomingMessage>((resolve, reject) => {
      const to = { host: "127.0.0.1", port, servername: host, path: where, ca, agent: false, ...options, headers };
      request(to, resolve).once("error", reject).end(body);
    });
  };

  before(async () => {
    await composed("up", "--detach", "--build", "--wait");
    key = /shown only now: (svc_\S+)/.exec(await platformLog())![1]!;
    await composed("cp", "proxy:/data/caddy/pki/authorities/local/root.crt", CA);
    ca = readFileSync(CA, "utf8");
    cli = { PLATFORM_URL: `https://localhost:${port}`, PLATFORM_API_KEY: key, NODE_EXTRA_CA_CERTS: CA };
  });

  test("the platform runs as nobody in particular, and its workers have namespaces all the same", async (t) => {
    assert.doesNotMatch(await platformLog(), /kept apart less/);
    const cwd = project(t, { "app.py": APP });
    await run(t, ["deploy", "--app", "try", "--env", "production"], cwd);
    const seen = await look(t);
    assert.deepEqual([seen.uid, seen.root, seen.data.includes("svc.db")], [7878, false, false]);
    assert.match(await run(t, ["status", "look"], cwd), /limits: rlimit; isolation: namespaces, landlock$/m);
    const inspected = JSON.parse(await engine("inspect", `${PROJECT}-platform-1`));
    const [{ HostConfig, State }] = inspected;
    assert.deepEqual([HostConfig.ReadonlyRootfs, HostConfig.Privileged, HostConfig.CapDrop], [true, false, ["ALL"]]);
    assert.equal(State.Health.Status, "healthy");
    assert.deepEqual(HostConfig.PortBindings, {}, "only the proxy is reached from outside");
    const status = await run(t, ["status", "--json"], cwd);
    api = /[a-z0-9]{14}(?=\.localhost)/.exec(status)![0];
  });

  test("each load-balanced endpoint has a host with a certificate of its own; nobody else's host gets one", async () => {
    const host = `${api}.localhost`;
    const size = await send(host, "/size", { method: "POST" }, Buffer.alloc(UPLOAD_BYTES / 12));
    assert.equal(size.statusCode, 200);
    await assert.rejects(send("nobody.localhost", "/size"), /alert|EPROTO|ECONNRESET/);
    const plain = await fetch(`http://${env.HTTP_PORT}/`, { redirect: "manual" });
    assert.deepEqual([plain.status, new URL(plain.headers.get("location")!).protocol], [308, "https:"]);
  });

  test("streams come as they are sent, and WebSockets pass", async () => {
    const host = `${api}.localhost`;
    const stream = await send(host, "/slowly");
    const [first] = await stream.setEncoding("utf8").take(1).toArray();
    assert.match(first, /one/, "the first word is there long before the second is sent");
    stream.destroy();
    const headers = { host, authorization: `Bearer ${key}` };
    const socket = new WebSocket(`wss://127.0.0.1:${port}/echo`, { servername: host, ca, headers } as object);
    const answer = await new Promise((resolve, reject) => {
      socket
        .once("open", () => socket.send("hello"))
        .once("message", (data) => resolve(String(data)))
        .once("error", reject);
    });
    socket.terminate();
    assert.equal(answer, "hello");
  });

  test("a file of many megabytes reaches a volume", async (t) => {
    const cwd = tempDir(t);
    writeFileSync(path.join(cwd, "model.bin"), "begin");
    truncateSync(path.join(cwd, "model.bin"), UPLOAD_BYTES);
    await run(t, ["volume", "put", "files", "model.bin", "--app", "try", "--env", "production"], cwd);
    assert.deepEqual((await look(t)).files, ["model.bin"]);
  });

  test("callers are told apart by what the proxy says, not by what they say", async (t) => {
    const forged = { authorization: "Bearer svc_wrong", "x-forwarded-for": "203.0.113.7" };
    const refused = await send("localhost", "/graphql", { method: "POST", headers: forged }, Buffer.from("{}"));
    assert.equal(refused.statusCode, 401);
    await eventually(async () => {
      const text = await run(t, ["audit", "--json"], tempDir(t));
      assert.match(text, /"address": ?"10\.78\.78\.\d+"/);
      assert.doesNotMatch(text, /203\.0\.113\.7|"address": ?"10\.78\.78\.2"/);
    });
  });

  test("a backup is made inside and copied out", async (t) => {
    await composed("exec", "-T", "platform", "svc", "platform", "backup", "/backups/monday");
    const folder = path.join(tempDir(t), "monday");
    await composed("cp", "platform:/backups/monday", folder);
    assert.ok(existsSync(path.join(folder, "secret.key")));
  });

  test("down and up again keeps what was deployed, and shows the first key no more", async (t) => {
    await composed("down", "--timeout", "60");
    await composed("up", "--detach", "--wait");
    assert.doesNotMatch(await platformLog(), /svc_/);
    assert.deepEqual((await look(t)).files, ["model.bin"]);
  });
});

describe("The image by itself", { skip }, () => {
  test("where the engine allows no namespaces, Landlock stands in and the log says so; strict does not start", async () => {
    const bare = ["run", "--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--name", `${PROJECT}-bare`];
    await engine(...bare, "--detach", IMAGE);
    try {
      await eventually(async () => {
        const { stdout, stderr } = await runProcess("docker", ["logs", `${PROJECT}-bare`], { env: process.env });
        assert.match(stdout + stderr, /kept apart less than usual: this machine lacks namespaces/);
      });
    } finally {
      await engine("rm", "--force", "--volumes", `${PROJECT}-bare`);
    }
    const strict = await runProcess("docker", [...bare, "-e", "SVC_ISOLATION=strict", IMAGE], { env: process.env });
    assert.notEqual(strict.code, 0);
    assert.match(strict.stderr, /lacks namespaces .*: strict cannot be kept/);
  });

  test("its files are handed out with the archive, and name no other image than they build", () => {
    for (const file of ["Caddyfile", "compose.yaml", "seccomp.json"])
      assert.ok(existsSync(path.join(made.folder, file)));
    assert.match(readFileSync(path.join(made.folder, "SHA256SUMS"), "utf8"), / {2}compose\.yaml\n/);
  });
});
