/** The Python package as a newcomer gets it: `svc init`, `pip install -r requirements.txt`, a script that calls. */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { wheelName } from "../../src/domain/published-name.ts";
import { VERSION } from "../../src/domain/version.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { ROOT, startPlatform, svc, tempDir } from "./platform.ts";

/** Nothing is fetched: the index of these variables does not exist. */
const NO_INDEX = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  PIP_NO_INDEX: "1",
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
  UV_OFFLINE: "1",
  UV_NO_CONFIG: "1",
};

const SCRIPT = `from cpu_worker import summarize
from lb_worker import process

print(summarize([1, 2, 3, 4]))
print(summarize.local([1, 2])["count"])
print(list(summarize.map([[1], [1, 2]]))[1]["count"])
print(process("two words")["words"])
`;

async function run(command: string, args: string[], options: { cwd?: string; env?: object } = {}): Promise<string> {
  const env = { ...NO_INDEX, ...options.env };
  const { code, stdout, stderr } = await runProcess(command, args, { cwd: options.cwd, env });
  assert.equal(code, 0, `${command} ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

test("a new project installs the SDK without a network, and a script calls its endpoints", async (t) => {
  const platform = await startPlatform(t);
  const cwd = path.join(tempDir(t), "hello");
  assert.equal((await platform.svc(["init", cwd])).code, 0);
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);

  const python = path.join(cwd, ".venv/bin/python");
  await run("python3", ["-m", "venv", ".venv"], { cwd });
  await run(python, ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"], { cwd });
  writeFileSync(path.join(cwd, "script.py"), SCRIPT);
  const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  assert.deepEqual((await run(python, ["script.py"], { cwd, env })).trim().split("\n"), [
    "{'count': 4, 'mean': 2.5, 'median': 2.5, 'stdev': 1.118033988749895}",
    "2",
    "2",
    "2",
  ]);
  const place = await run(python, ["-c", "import svc; print(svc.__file__, svc.__version__)"], { cwd });
  assert.ok(place.startsWith(path.join(cwd, ".venv")), place);
  assert.ok(place.trim().endsWith(` ${VERSION}`), place);

  const git = await run("git", ["-C", cwd, "init", "--quiet"]).then(() =>
    run("git", ["-C", cwd, "ls-files", "--others", "--exclude-standard", ".svc"]),
  );
  assert.equal(git.trim(), `.svc/wheels/${wheelName(VERSION)}`, "the repository of a project holds the wheel");
});

describe("the wheel", () => {
  const cwd = mkdtempSync(path.join(tmpdir(), "svc-wheel-"));
  const wheel = path.join(cwd, `.svc/wheels/${wheelName(VERSION)}`);
  before(async () => assert.equal((await svc(["init", "."], { cwd })).code, 0));
  after(() => rmSync(cwd, { recursive: true, force: true }));

  test("is what pip makes of the sources, byte for byte", async (t) => {
    const dir = tempDir(t);
    await run("python3", ["-m", "pip", "wheel", "--quiet", "--no-deps", "-w", dir, path.join(ROOT, "python")]);
    assert.ok(readFileSync(path.join(dir, path.basename(wheel))).equals(readFileSync(wheel)));
  });

  test("says of itself what pyproject.toml says", async (t) => {
    const dir = tempDir(t);
    await run("python3", ["-m", "zipfile", "-e", wheel, dir]);
    const metadata = readFileSync(
      path.join(dir, `${wheelName(VERSION).replace("-py3-none-any.whl", "")}.dist-info/METADATA`),
      "utf8",
    );
    const project = readFileSync(path.join(ROOT, "python/pyproject.toml"), "utf8");
    const of = (key: string) => new RegExp(`^${key} = "(.*)"$`, "m").exec(project)![1];
    assert.deepEqual(metadata.trim().split("\n"), [
      "Metadata-Version: 2.1",
      `Name: ${of("name")}`,
      `Version: ${of("version")}`,
      `Summary: ${of("description")}`,
      "License: Apache-2.0",
      `Requires-Python: ${of("requires-python")}`,
    ]);
    assert.ok(existsSync(path.join(dir, "svc/py.typed")));
    assert.ok(existsSync(path.join(dir, `${wheelName(VERSION).replace("-py3-none-any.whl", "")}.dist-info/LICENSE`)));
  });

  test("is installed by uv as by pip", async (t) => {
    const dir = tempDir(t);
    const uv = await findUv(dir);
    if (uv === undefined) return t.skip("uv is not here and cannot be installed");
    await run("python3", ["-m", "venv", "--without-pip", path.join(dir, "v")]);
    const python = path.join(dir, "v/bin/python");
    await run(uv, ["pip", "install", "--quiet", "--python", python, "-r", "requirements.txt"], {
      cwd,
      env: { UV_CACHE_DIR: path.join(dir, "cache") },
    });
    assert.equal((await run(python, ["-c", "import svc; print(svc.__version__)"])).trim(), VERSION);
  });
});

/** The machine's, or one from the index. */
async function findUv(dir: string): Promise<string | undefined> {
  const own = await runProcess("uv", ["--version"]).catch(() => undefined);
  if (own?.code === 0) return "uv";
  const args = ["-m", "pip", "install", "-q", "--target", path.join(dir, "uv"), "uv"];
  const { code } = await runProcess("python3", args, { env: process.env });
  return code === 0 ? path.join(dir, "uv/bin/uv") : undefined;
}
