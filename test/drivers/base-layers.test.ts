import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, describe, type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { SvcError } from "../../src/domain/errors.ts";
import { WORKER_UIDS_DEFAULT } from "../../src/domain/limits.ts";
import { BaseLayers, KNOWN_TO_UV } from "../../src/drivers/base-layers.ts";
import { ConfinedInstaller } from "../../src/drivers/confined-installer.ts";
import { type Interpreter, Interpreters } from "../../src/drivers/interpreter.ts";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { makeWheels, offlineEnv } from "../build/wheels.ts";
import { ROOT } from "../e2e/platform-process.ts";

function folder(t: TestContext): string {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-base-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** As a platform whose data directory is `dir`. */
function confined(dir: string): ConfinedInstaller {
  const uid = process.getuid?.() === 0 ? WORKER_UIDS_DEFAULT[1] : undefined;
  return new ConfinedInstaller({ pythonPath: path.join(ROOT, "python/src"), hidden: [dir], uid });
}

/** The index as this machine's users reach it. */
const ONLINE = process.env;
/** Nothing listens there: refused at once. */
const NO_NETWORK = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  PIP_INDEX_URL: "http://127.0.0.1:1/simple",
  PIP_RETRIES: "1",
  UV_DEFAULT_INDEX: "http://127.0.0.1:1/simple",
  UV_HTTP_RETRIES: "0",
};

/** From the real index, for all tests of this file: the wheel of uv in a folder, and another with uv and nothing else; or why there are none. */
let uv: Promise<{ readonly wheels: string; readonly bin: string } | string> | undefined;
const uvDir = mkdtempSync(path.join(tmpdir(), "svc-uv-"));
after(() => rmSync(uvDir, { recursive: true, force: true }));

async function fetchUv(): Promise<{ readonly wheels: string; readonly bin: string } | string> {
  const [wheels, target, bin] = ["wheels", "target", "bin"].map((name) => path.join(uvDir, name)) as [
    string,
    string,
    string,
  ];
  const args = ["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--dest", wheels, "uv"];
  const fetched = await runProcess("python3", args, { env: ONLINE });
  if (fetched.code !== 0) return `no uv to be had here: ${fetched.stderr.trim().split("\n").at(-1)}`;
  const from = ["--no-index", "--find-links", wheels, "--target", target];
  assert.equal((await runProcess("python3", ["-m", "pip", "install", "-q", ...from, "uv"])).code, 0);
  mkdirSync(bin);
  symlinkSync(path.join(target, "bin/uv"), path.join(bin, "uv"));
  return { wheels, bin };
}

async function ofUv(t: TestContext, which: "wheels" | "bin"): Promise<string | undefined> {
  uv ??= fetchUv();
  const found = await uv;
  if (typeof found === "string") return void t.skip(found);
  return found[which];
}

let pip: Promise<{ readonly code: number | null }> | undefined;

async function lacksPip({ path: python }: Interpreter): Promise<boolean> {
  pip ??= runProcess(python, ["-m", "pip", "--version"]);
  return (await pip).code !== 0;
}

/** A search path that leads to no uv. */
function pathWithoutUv(): string {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return folders.filter((dir) => !existsSync(path.join(dir, "uv"))).join(path.delimiter);
}

/** A package index of the wheels in a folder. */
function indexOf(wheels: string): RequestListener {
  return (request, response) => {
    const parts = request.url!.split("/").filter(Boolean);
    const last = decodeURIComponent(parts.at(-1) ?? "");
    if (last.endsWith(".whl")) return void response.end(readFileSync(path.join(wheels, last)));
    const files = readdirSync(wheels).filter((file) => file.startsWith(`${last.replaceAll("-", "_")}-`));
    response.writeHead(files.length > 0 ? 200 : 404, { "content-type": "text/html" });
    response.end(files.map((file) => `<a href="${encodeURIComponent(file)}">${file}</a>`).join("\n"));
  };
}

async function listening(t: TestContext, server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The way out of this machine: it goes to `hosts`, and to nobody while that is undefined. Says who was asked for. */
async function wayOut(t: TestContext) {
  const way = { asked: new Set<string>(), url: "", to: undefined as Server | undefined };
  const proxy = createServer();
  proxy.on("connect", ({ url }, socket) => {
    way.asked.add(url!.split(":")[0]!);
    socket.on("error", () => {});
    if (way.to === undefined) return void socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    way.to.emit("connection", socket);
  });
  way.url = await listening(t, proxy);
  return way;
}

/** As whoever is at that name. */
function tlsServerOf(host: string, dir: string, listener: RequestListener): { server: Server; certificate: string } {
  const [key, certificate] = [path.join(dir, "key.pem"), path.join(dir, "cert.pem")];
  const names = ["-subj", "/CN=test", "-addext", `subjectAltName=DNS:${host}`, "-addext", "basicConstraints=CA:FALSE"];
  const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate];
  execFileSync("openssl", [...made, ...names], { stdio: "ignore" });
  const server = createTlsServer({ key: readFileSync(key), cert: readFileSync(certificate) }, listener);
  return { server, certificate };
}

/** Tries again while the index is out of reach for a moment, as the platform does. */
async function ensured(layers: BaseLayers, interpreter: Interpreter, report: (line: string) => void): Promise<string> {
  for (let left = 4; ; left -= 1) {
    try {
      return await layers.ensure(["numpy"], interpreter, report);
    } catch (error) {
      const { message, help } = error as SvcError;
      if (!/index cannot be reached/.test(message)) throw error;
      assert.ok(left > 0, `${message} ${help}`);
      await delay(3_000);
    }
  }
}

async function installs(
  dir: string,
  interpreter: Interpreter,
  env: Record<string, string | undefined>,
): Promise<string[]> {
  const said: string[] = [];
  const layers = new BaseLayers(path.join(dir, "base"), env, confined(dir));
  const [first, second] = await Promise.all([
    ensured(layers, interpreter, (line) => said.push(line)),
    ensured(layers, interpreter, () => {}),
  ]);
  assert.equal(first, second, "two endpoints share one environment");
  const code = "import sys; sys.path.insert(0, sys.argv[1]); import numpy; print(numpy.arange(3).sum())";
  const { stdout, stderr } = await runProcess(interpreter.path, ["-I", "-c", code, first]);
  assert.equal(stdout.trim(), "3", stderr);
  assert.deepEqual(readdirSync(path.join(dir, "base")), [path.basename(first)]);
  return said;
}

describe("numpy on a fresh machine", () => {
  test("is installed with pip alone, and the progress is told in words", { timeout: 300_000 }, async (t) => {
    const interpreter = await new Interpreters(undefined).default();
    const env = { ...ONLINE, PATH: pathWithoutUv() };
    if (await lacksPip(interpreter)) return t.skip("no pip here");
    const said = await installs(folder(t), interpreter, env);
    assert.ok(
      said.some((line) => /^installing numpy \d[\w.]* \([\d.]+ MB\)$/.test(line)),
      said.join("\n"),
    );
    assert.deepEqual(
      said.filter((line) => /WARNING|whl|notice|━|%/.test(line)),
      [],
    );
  });

  test("is installed with uv alone, where no Python has pip", { timeout: 300_000 }, async (t) => {
    const bin = await ofUv(t, "bin");
    if (bin === undefined) return;
    const interpreter = await new Interpreters(undefined).default();
    const said = await installs(folder(t), interpreter, { ...ONLINE, PATH: bin, UV_CACHE_DIR: folder(t) });
    assert.ok(
      said.some((line) => /^installing numpy \([\d.]+ MB\)$/.test(line)),
      said.join("\n"),
    );
  });

  test("without a network ends in one clear reason, leaves nothing, and a later try succeeds", {
    timeout: 300_000,
  }, async (t) => {
    const interpreter = await new Interpreters(undefined).default();
    const [dir, wheels] = [folder(t), folder(t)];
    const numpy =
      "class arange:\n    def __init__(self, n): self.n = n\n    def sum(self): return sum(range(self.n))\n";
    makeWheels(wheels, [{ name: "numpy", version: "1.0", files: { "numpy.py": numpy } }]);
    chmodSync(wheels, 0o755);
    const cut = new BaseLayers(path.join(dir, "base"), NO_NETWORK, confined(dir));
    await assert.rejects(
      cut.ensure(["numpy"], interpreter, () => {}),
      { code: "DEPENDENCIES_FAILED", message: "numpy could not be installed: the package index cannot be reached." },
    );
    assert.deepEqual(readdirSync(path.join(dir, "base")), []);
    await installs(dir, interpreter, offlineEnv(wheels));
  });

  test("comes from where the user's own settings say, also when that lies in the user's home", {
    timeout: 300_000,
  }, async (t) => {
    const interpreter = await new Interpreters(undefined).default();
    if (await lacksPip(interpreter)) return t.skip("no pip here");
    const [dir, home] = [folder(t), folder(t)];
    const wheel = (name: string) => ({ name, version: "1.0", files: { [`${name}.py`]: "" } });
    makeWheels(path.join(home, "wheels"), [wheel("numpy"), wheel("torch")]);
    mkdirSync(path.join(home, ".config/pip"), { recursive: true });
    const settings = `[global]\nno-index = true\nfind-links =\n    ${home}/wheels\n`;
    writeFileSync(path.join(home, ".config/pip/pip.conf"), settings);
    chmodSync(home, 0o755);
    const env = { PATH: "/usr/bin:/bin", HOME: home };
    const layers = new BaseLayers(path.join(dir, "base"), env, confined(dir));
    const said: string[] = [];
    const report = (line: string) => void said.push(line);
    const target = await layers.ensure(["numpy"], interpreter, report);
    assert.ok(existsSync(path.join(target, "numpy.py")));
    assert.equal(said[0], "installing numpy");
    said.length = 0;
    await layers.ensure(["numpy", "torch>=1"], interpreter, report);
    const size = "several GB with the GPU libraries of torch, once for this machine";
    assert.equal(said[0], `installing numpy, torch>=1: ${size}`, "what is large is said before");
    assert.equal(said.at(-1), "preparing bytecode; several GB in all");
  });

  test("is for the CPU alone where only GPUs are emulated and such builds are to be had", async (t) => {
    const interpreter = await new Interpreters(undefined).default();
    if (await lacksPip(interpreter)) return t.skip("no pip here");
    const [dir, wheels, cpu] = [folder(t), folder(t), folder(t)];
    const gpu = { name: "nvidia-cublas", version: "1.0", files: { "cublas.py": "" } };
    makeWheels(wheels, [
      { name: "torch", version: "2.0", requires: ["nvidia-cublas"], files: { "torch.py": "" } },
      gpu,
    ]);
    makeWheels(cpu, [{ name: "torch", version: "2.0+cpu", files: { "torch.py": "" } }]);
    for (const one of [wheels, cpu]) chmodSync(one, 0o755);
    const said: string[] = [];
    const inside = async (cpuWheels?: string) => {
      const layers = new BaseLayers(path.join(dir, "base"), offlineEnv(wheels), confined(dir), cpuWheels);
      return readdirSync(await layers.ensure(["torch"], interpreter, (line) => said.push(line)));
    };
    assert.ok((await inside()).includes("cublas.py"));
    const small = await inside(cpu);
    assert.deepEqual([small.includes("torch.py"), small.includes("cublas.py")], [true, false]);
    assert.ok(said.includes("installing torch, for the CPU where there is such a build"), said.join("\n"));
  });

  test("is for the CPU alone where only GPUs are emulated and uv installs: it knows where such builds are", {
    timeout: 300_000,
  }, async (t) => {
    if (onPath("openssl", process.env.PATH ?? "") === undefined) return t.skip("no openssl here");
    const bin = await ofUv(t, "bin");
    if (bin === undefined) return;
    const interpreter = await new Interpreters(undefined).default();
    const [dir, wheels, cpu] = [folder(t), folder(t), folder(t)];
    const gpu = { name: "nvidia-cublas", version: "1.0", files: { "cublas.py": "" } };
    const large = { name: "torch", version: "2.0", requires: ["nvidia-cublas"], files: { "torch.py": "" } };
    makeWheels(wheels, [large, gpu, { name: "numpy", version: "1.0", files: { "numpy.py": "" } }]);
    makeWheels(cpu, [{ name: "torch", version: "2.0+cpu", files: { "torch.py": "" } }]);
    const way = await wayOut(t);
    const certificate = path.join(dir, "cert.pem");
    const env: Record<string, string | undefined> = {
      PATH: bin,
      UV_DEFAULT_INDEX: `${await listening(t, createServer(indexOf(wheels)))}/simple/`,
      UV_HTTP_RETRIES: "0",
      HTTPS_PROXY: way.url,
      NO_PROXY: "127.0.0.1",
    };
    const said: string[] = [];
    const install = async (requirements: string[], more: Record<string, string> = {}, from?: string) => {
      const layers = new BaseLayers(path.join(dir, "base"), { ...env, ...more }, confined(dir), from);
      return readdirSync(await layers.ensure(requirements, interpreter, (line) => said.push(line)));
    };

    assert.ok((await install(["numpy"], {}, KNOWN_TO_UV)).includes("numpy.py"));
    assert.ok((await install(["torch"])).includes("cublas.py"), "a machine with GPUs, or SVC_CPU_WHEELS=off");
    assert.deepEqual([...way.asked], [], "what is asked for elsewhere is torch alone, and only then");

    assert.ok((await install(["torch"], {}, KNOWN_TO_UV)).includes("cublas.py"), "what is there is not fetched again");
    assert.deepEqual([...way.asked], []);

    said.length = 0;
    assert.ok((await install(["torch>=1"], {}, KNOWN_TO_UV)).includes("cublas.py"), "no way to builds for the CPU");
    assert.deepEqual(said.slice(0, 2), [
      "installing torch>=1, builds for the CPU",
      "installing torch>=1: several GB with the GPU libraries of torch, once for this machine; builds for the CPU could not be had " +
        "from where uv knows them (the network does not reach there): SVC_CPU_WHEELS says where builds without them are",
    ]);
    const [host, ...others] = way.asked;
    assert.deepEqual(others, []);
    await assert.rejects(install(["torch>=1.5"], { UV_DEFAULT_INDEX: "http://127.0.0.1:1/simple" }, KNOWN_TO_UV), {
      code: "DEPENDENCIES_FAILED",
      message: "torch>=1.5 could not be installed: the package index cannot be reached.",
    });

    const far = tlsServerOf(host!, dir, indexOf(cpu));
    way.to = far.server;
    chmodSync(dir, 0o755);
    const small = await install(["torch>=2"], { SSL_CERT_FILE: certificate }, KNOWN_TO_UV);
    assert.deepEqual([small.includes("torch.py"), small.includes("cublas.py")], [true, false]);
    assert.ok(said.includes("installing torch>=2, builds for the CPU"), said.join("\n"));
  });

  test("is for the CPU alone where only pip is there: uv is brought by it, and told pip's settings", {
    timeout: 300_000,
  }, async (t) => {
    if (onPath("openssl", process.env.PATH ?? "") === undefined) return t.skip("no openssl here");
    const interpreter = await new Interpreters(undefined).default();
    if (await lacksPip(interpreter)) return t.skip("no pip here");
    const wheels = await ofUv(t, "wheels");
    if (wheels === undefined) return;
    const [dir, more, cpu] = [folder(t), folder(t), folder(t)];
    const gpu = { name: "nvidia-cublas", version: "1.0", files: { "cublas.py": "" } };
    const large = { name: "torch", version: "2.0", requires: ["nvidia-cublas"], files: { "torch.py": "" } };
    makeWheels(wheels, [large, gpu]);
    makeWheels(more, [{ name: "sympy", version: "1.0", files: { "sympy.py": "" } }]);
    makeWheels(cpu, [{ name: "torch", version: "2.0+cpu", requires: ["sympy"], files: { "torch.py": "" } }]);
    for (const one of [dir, more]) chmodSync(one, 0o755);
    const certificate = path.join(dir, "cert.pem");
    const fetched: string[] = [];
    const index = indexOf(wheels);
    const listener: RequestListener = (request, response) => {
      fetched.push(request.url!.split("/").filter(Boolean).at(-1)!);
      index(request, response);
    };
    const way = await wayOut(t);
    const env: Record<string, string | undefined> = {
      PATH: pathWithoutUv(),
      PIP_CONFIG_FILE: "/dev/null",
      PIP_INDEX_URL: `${await listening(t, createServer(listener))}/simple/`,
      PIP_FIND_LINKS: more,
      PIP_RETRIES: "0",
      UV_HTTP_RETRIES: "0",
      HTTPS_PROXY: way.url,
      NO_PROXY: "127.0.0.1",
    };
    const said: string[] = [];
    const install = async (requirements: string[]) => {
      const layers = new BaseLayers(path.join(dir, "base"), env, confined(dir), KNOWN_TO_UV);
      return readdirSync(await layers.ensure(requirements, interpreter, (line) => said.push(line)));
    };
    assert.ok((await install(["torch"])).includes("cublas.py"), "no way to builds for the CPU: as without them");
    assert.match(
      said.find((line) => line.includes("several GB"))!,
      /^installing torch: several GB .*; builds for the CPU could not be had .*\(the network does not reach there\): SVC_CPU_WHEELS says/,
    );
    way.to = tlsServerOf([...way.asked][0]!, dir, indexOf(cpu)).server;
    // What says where certificates are says it to both.
    env.PIP_CERT = certificate;
    said.length = 0;
    const small = await install(["torch>=2"]);
    assert.deepEqual(
      ["torch.py", "sympy.py", "cublas.py"].map((file) => small.includes(file)),
      [true, true, false],
    );
    assert.equal(said[0], "installing torch>=2, builds for the CPU");
    assert.equal(fetched.filter((name) => /^uv-.*whl$/.test(name)).length, 1, "uv is brought once");
    assert.equal(readdirSync(path.join(dir, "base")).length, 3, "two layers and uv; nothing half made");
  });

  test("brings GPU libraries along where only pip is there and cannot bring uv, and says where to find others", async (t) => {
    const interpreter = await new Interpreters(undefined).default();
    if (await lacksPip(interpreter)) return t.skip("no pip here");
    const [dir, wheels] = [folder(t), folder(t)];
    makeWheels(wheels, [{ name: "torch", version: "2.0", files: { "torch.py": "" } }]);
    chmodSync(wheels, 0o755);
    const env = { ...offlineEnv(wheels), PATH: pathWithoutUv() };
    const said: string[] = [];
    const inside = async (from?: string) => {
      const layers = new BaseLayers(path.join(dir, from ?? "base"), env, confined(dir), from);
      return readdirSync(await layers.ensure(["torch"], interpreter, (line) => said.push(line)));
    };
    assert.ok((await inside(KNOWN_TO_UV)).includes("torch.py"));
    assert.equal(said[0], "fetching uv, which knows builds for the CPU");
    const usual = said.find((line) => line.startsWith("installing torch:"))!;
    assert.match(
      usual,
      /several GB with the GPU libraries of torch, once for this machine; uv, .*, could not be fetched \(No matching/,
    );
    assert.match(usual, /: SVC_CPU_WHEELS says where builds without them are$/);
    said.length = 0;
    await inside();
    assert.doesNotMatch(said.join("\n"), /uv/, "SVC_CPU_WHEELS=off asks for none");
  });

  test("without any installer says which to install", async (t) => {
    const layers = new BaseLayers(path.join(folder(t), "base"), { PATH: "/nowhere" });
    await assert.rejects(
      layers.ensure(["numpy"], { path: "/nowhere/python3", base: "/nowhere/python3", version: "3.11" }, () => {}),
      { code: "DEPENDENCIES_FAILED", help: /Install uv, or pip/ },
    );
  });
});
