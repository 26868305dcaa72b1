import assert from "node:assert/strict";
import { cp, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runProcess } from "../../src/lib/run-process.ts";
import { sandbox } from "./run-svc.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/text-analysis", import.meta.url));

const REFERENCE = fileURLToPath(new URL("../../docs/reference/cli.md", import.meta.url));

async function project(files: Record<string, string>) {
  const box = await sandbox();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(box.cwd, name, ".."), { recursive: true });
    await writeFile(join(box.cwd, name), text);
  }
  return box;
}

describe("svc build", () => {
  test("packs the example and says what was built and what was left out", async () => {
    const box = await sandbox();
    await cp(EXAMPLE, box.cwd, { recursive: true });
    const { code, stdout, stderr } = await box.svc(["build"]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Built 3 endpoints into \.svc\/artifact\.tar\.gz \(\d/);
    assert.match(stdout, /^sentiment +load-balanced +GPU ANY +0 to 2$/m);
    assert.match(stderr, /base image has it: numpy\./);
    assert.ok((await stat(join(box.cwd, ".svc", "artifact.tar.gz"))).size > 0);
  });

  test("--output and -o name the archive, --explain shows settings and files", async () => {
    const box = await sandbox();
    await cp(EXAMPLE, box.cwd, { recursive: true });
    const { stdout } = await box.svc(["build", "-o", "mine.tar.gz", "--explain"]);
    assert.match(stdout, /into \.svc\/mine\.tar\.gz/);
    assert.match(stdout, /POST \/analyze +text_api\.analyze\(text: str\)/);
    assert.match(stdout, /src\/vocabulary\.py/);
  });

  test("what the command itself prints into the project is no part of it", async () => {
    const box = await project({ "a.py": 'from svc import Endpoint\n@Endpoint(name="a")\ndef a(): ...\n' });
    const words = [process.execPath, ...box.command(["build", "--explain"])].map((word) => `'${word}'`).join(" ");
    const { code } = await runProcess("sh", ["-c", `${words} > build.log 2>&1`], { cwd: box.cwd, env: box.env });
    const log = await readFile(join(box.cwd, "build.log"), "utf8");
    assert.equal(code, 0, log);
    assert.doesNotMatch(log, /src\/build\.log/);
    assert.match(log, /build\.log +by what this command prints/);
    assert.match((await box.svc(["build", "--explain"])).stdout, /src\/build\.log/, "of another command it is");
  });

  test("--json is one value on stdout without the values of env=", async () => {
    const source =
      'import os\nfrom svc import Endpoint\n@Endpoint(name="a", env={"TOKEN": os.environ["TOKEN"]})\ndef a(): ...\n';
    const box = await project({ "a.py": source });
    const { code, stdout } = await box.svc(["build", "--json", "--explain"], { env: { TOKEN: "hush-hush" } });
    assert.equal(code, 0);
    const shown = JSON.parse(stdout) as { manifest: { resources: Record<string, { envNames: string[] }> } };
    assert.deepEqual(shown.manifest.resources.a?.envNames, ["TOKEN"]);
    assert.ok(!stdout.includes("hush-hush"));
  });

  test("a secret of the source is warned of and printed nowhere, not in --json and not in --explain", async () => {
    const source =
      'from svc import Endpoint\n@Endpoint(name="a", env={"API_KEY": "sk-topsecret" "0123456789", "B": "x"})\ndef a(): ...\n';
    const box = await project({ "a.py": source });
    for (const flags of [[], ["--explain"], ["--json"], ["--json", "--explain"]]) {
      const { code, stdout, stderr } = await box.svc(["build", ...flags]);
      assert.equal(code, 0);
      assert.match(stderr + stdout, /secret-in-source/);
      assert.ok(!/topsecret|0123456789/.test(stdout + stderr), stdout + stderr);
    }
  });

  test("--json and --explain print what the reference says", async () => {
    const box = await project({
      "a.py": 'from svc import Endpoint\n@Endpoint(name="a", dependencies=["numpy"])\ndef a(x: int = 1): ...\n',
      ".svcignore": "notes.txt\n",
      "notes.txt": "mine",
    });
    const reference = await readFile(REFERENCE, "utf8");
    const section = reference.slice(reference.indexOf("## svc build"), reference.indexOf("## svc deploy"));
    const { stdout } = await box.svc(["build", "--json", "--explain"]);
    const shown = JSON.parse(stdout) as Record<string, unknown>;
    const documented = [...section.matchAll(/^\| `([a-zA-Z]+)` +\|/gm)].map((match) => match[1]!);
    assert.deepEqual(documented.sort(), Object.keys(shown).sort());
    const titles = (shown.explanation as { title: string; rows: { what: string; why: string }[] }[]).map(
      (part) => part.title,
    );
    for (const title of titles) assert.ok(section.includes(title.split(/ [0-9a-f(]/)[0]!), `${title} in the reference`);
    const { stdout: text } = await box.svc(["build", "--explain"]);
    for (const part of [
      /^Endpoints$/m,
      /notes\.txt +by notes\.txt \(\.svcignore\)/,
      /src\/a\.py +\d/,
      /numpy +endpoint "a" gets it from/,
    ])
      assert.match(text, part);
  });

  test("a project without endpoints, and an empty one, end with one message and exit code 1", async () => {
    for (const files of [{}, { "a.py": "def f(): ...\n" }] as Record<string, string>[]) {
      const { code, stdout, stderr } = await (await project(files)).svc(["build"]);
      assert.equal(code, 1);
      assert.equal(stdout, "");
      assert.match(stderr, /error: No function of the project is decorated with Endpoint\./);
      assert.match(stderr, /svc init/);
    }
  });

  test("all problems are shown at once, with their places and without a stack", async () => {
    const box = await project({
      "a.py": 'from svc import Endpoint\n@Endpoint(name="a", workerz=3)\ndef a(): ...\n',
      "b.py": 'from svc import Endpoint\n@Endpoint(name="a")\ndef b(): ...\n',
      "c.py": "from svc import Endpoint\ndef (\n",
    });
    const { code, stderr } = await box.svc(["build"]);
    assert.equal(code, 1);
    for (const place of [/a\.py:2:/, /b\.py:2:/, /c\.py:2:/]) assert.match(stderr, place);
    assert.match(stderr, /workers/);
    assert.doesNotMatch(stderr, /\.ts:\d/);
  });
});
