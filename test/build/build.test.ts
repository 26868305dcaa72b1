import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { after, before, describe, test } from "node:test";
import { createGunzip, gunzipSync } from "node:zlib";
import { extract } from "tar-stream";
import { buildProject } from "../../src/build/build.ts";
import { BuildProblems } from "../../src/build/diagnostics.ts";
import { explainBuild } from "../../src/build/explain.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { manifestLayers } from "../../src/domain/manifest.ts";
import { manifestSchema } from "../../src/domain/manifest-schema.ts";
import { HELLO, temporaryFolder, writeFiles } from "./project.ts";
import { makeWheels, offlineEnv } from "./wheels.ts";

const WORKERS = `from svc import Endpoint, GpuGroup


@Endpoint(name="new", dependencies=["greeting==2.0"], env={"PLAIN": "in-source"})
def new():
    import greeting
    return greeting.TEXT


@Endpoint(name="old", dependencies=["greeting==1.0", "numpy<3"], gpu=GpuGroup.ANY)
def old():
    import greeting
    return greeting.TEXT


api = Endpoint(name="api", dependencies=["greeting==2.0"])


@api.get("/health")
def health(): ...
`;

let env: Record<string, string | undefined>;
let base: string;
const cleanups: (() => void)[] = [];

before(async () => {
  base = temporaryFolder({ after: (work: () => void) => void cleanups.push(work) });
  const wheels = path.join(base, "wheels");
  env = offlineEnv(wheels);
  makeWheels(wheels, [
    { name: "greeting", version: "1.0", files: { "greeting.py": 'TEXT = "one"\n' } },
    {
      name: "greeting",
      version: "2.0",
      requires: ["numpy>=1.20", "tiny; python_version >= '3.8'", "absent; sys_platform == 'win32'"],
      files: { "greeting.py": 'TEXT = "two"\n', "greeting_data/words.txt": "hello\n" },
      scripts: { greet: "greeting:TEXT" },
    },
    { name: "tiny", version: "1.0", requires: ["numpy<2.5"], files: { "tiny/__init__.py": "X = {'a', 'b', 'c'}\n" } },
    // No numpy: what stays out is never looked for.
    ...["1.0", "2.0"].map((version) => ({
      name: "picky",
      version,
      requires: [version === "1.0" ? "numpy" : "numpy>=2,<3", "tiny"],
      files: { "picky.py": `VERSION = "${version}"\n` },
    })),
    { name: "wants-greeting-one", version: "1.0", requires: ["greeting<2"], files: { "wants.py": "" } },
  ]);
  const projectDir = path.join(base, "project");
  writeFiles(projectDir, { "w.py": WORKERS });
  await buildProject({ projectDir, cacheDir: path.join(base, "cache"), configDir: base, env });
});
after(() => {
  for (const cleanup of cleanups) cleanup();
});

/** A project with WORKERS, its own copy of a cache that has the dependencies (or an empty one), and a build of it. */
function project(
  t: { after(work: () => void): void },
  files: Record<string, string | Uint8Array> = { "w.py": WORKERS },
  cache: "warm" | "empty" = "warm",
) {
  const folder = temporaryFolder(t);
  const projectDir = path.join(folder, "project");
  const cacheDir = path.join(folder, "cache");
  writeFiles(projectDir, files);
  if (cache === "warm") cpSync(path.join(base, "cache"), cacheDir, { recursive: true });
  const build = (options: Partial<Parameters<typeof buildProject>[0]> = {}) =>
    buildProject({ projectDir, cacheDir, configDir: base, env, ...options });
  return { folder, projectDir, cacheDir, build };
}

function tarNames(archive: string): string[] {
  return execFileSync("tar", ["tzf", archive], { encoding: "utf8" }).trimEnd().split("\n");
}

function tarText(archive: string, name: string): string {
  return execFileSync("tar", ["xzOf", archive, name], { encoding: "utf8" });
}

describe("the artifact", () => {
  test("holds sources, handlers, the manifest, a requirements file and each endpoint's own dependencies", async (t) => {
    const { build, projectDir } = project(t);
    const built = await build();
    const names = tarNames(built.artifactPath);
    const [one, two] = ["old", "new"].map((name) => {
      const set = built.dependencies.find((each) => each.set.endpoints.some((endpoint) => endpoint.name === name));
      return `deps/${set!.set.key}`;
    });
    assert.notEqual(one, two);
    for (const name of ["svc_manifest.json", "requirements.txt", "handlers/api.py", "handlers/new.py", "src/w.py"]) {
      assert.ok(names.includes(name), name);
    }
    assert.equal(tarText(built.artifactPath, `${one}/greeting.py`), 'TEXT = "one"\n');
    assert.equal(tarText(built.artifactPath, `${two}/greeting.py`), 'TEXT = "two"\n');
    assert.equal(tarText(built.artifactPath, `${two}/requirements.lock`), "greeting==2.0\ntiny==1.0\n");
    assert.match(tarText(built.artifactPath, "requirements.txt"), /for api, new\ngreeting==2.0\ntiny==1.0\n/);
    assert.ok(
      names.some((name) => name.startsWith(`${two}/__pycache__/greeting.cpython-`)),
      "bytecode",
    );

    const written = readFileSync(path.join(projectDir, ".svc", "svc_manifest.json"), "utf8");
    assert.equal(tarText(built.artifactPath, "svc_manifest.json"), written);
    const manifest = manifestSchema.parse(JSON.parse(written));
    assert.deepEqual(manifest, built.manifest);
    const { new: newer, old, api } = manifest.resources;
    assert.equal(newer!.dependencyLayer, api!.dependencyLayer);
    assert.notEqual(newer!.dependencyLayer, old!.dependencyLayer);
    assert.deepEqual(manifestLayers(manifest).sort(), built.layers.map((layer) => layer.digest).sort());
    assert.equal(built.artifactBytes, statSync(built.artifactPath).size);
  });

  test("is read by Python's tarfile, and every layer alone by tar, tarfile and tar-stream", async (t) => {
    const { build } = project(t);
    const built = await build();
    const script = "import sys, tarfile; print('\\n'.join(m.name for m in tarfile.open(sys.argv[1])))";
    const byPython = (file: string) =>
      execFileSync("python3", ["-c", script, file], { encoding: "utf8" }).trimEnd().split("\n");
    assert.deepEqual(byPython(built.artifactPath), tarNames(built.artifactPath));
    for (const layer of built.layers) {
      const bytes = readFileSync(layer.path);
      assert.equal(createHash("sha256").update(bytes).digest("hex"), layer.digest);
      assert.equal(bytes.length, layer.sizeBytes);
      const names: string[] = [];
      const reader = extract();
      reader.on("entry", (header, stream, next) => {
        names.push(header.name);
        stream.on("end", next).resume();
      });
      await pipeline(Readable.from([bytes]), createGunzip(), reader);
      assert.deepEqual(names, tarNames(layer.path));
      assert.deepEqual(byPython(layer.path), names);
      assert.ok(names.length > 0);
    }
  });

  test("is the same byte for byte for the same input, on another path, at another time, with another cache", async (t) => {
    const first = project(t);
    const second = project(t, undefined, "empty");
    const past = new Date(2001, 1, 1);
    utimesSync(path.join(second.projectDir, "w.py"), past, past);
    const [a, b] = [await first.build(), await second.build()];
    assert.deepEqual(readFileSync(a.artifactPath), readFileSync(b.artifactPath));
  });

  test("names no time, no owner, no path of this machine and no package index", async (t) => {
    const { build, folder } = project(t);
    const built = await build();
    const plain = gunzipSync(readFileSync(built.artifactPath)).toString("latin1");
    for (const secret of [folder, base, "file://", process.execPath]) assert.ok(!plain.includes(secret), secret);
    const listing = execFileSync("tar", ["tvzf", built.artifactPath, "--numeric-owner"], {
      encoding: "utf8",
      env: { ...process.env, TZ: "UTC" },
    });
    for (const line of listing.trimEnd().split("\n")) assert.match(line, /^-rw(x|-)r-.r-. 0\/0 .* 1970-01-01 00:00 /);
    assert.match(
      tarText(built.artifactPath, tarNames(built.artifactPath).find((name) => name.endsWith("/bin/greet"))!),
      /^#!\/usr\/bin\/env python3\n/,
    );
  });

  test("takes its name from output, and .svc/.build/ goes unless it is to be kept", async (t) => {
    const { build, projectDir } = project(t, { "w.py": HELLO });
    const built = await build({ output: "mine.tar.gz" });
    assert.equal(built.artifactPath, path.join(projectDir, ".svc", "mine.tar.gz"));
    assert.deepEqual(readdirSync(path.join(projectDir, ".svc")).sort(), [
      ".gitignore",
      "mine.tar.gz",
      "svc_manifest.json",
    ]);
    await build({ keepBuild: true });
    assert.ok(existsSync(path.join(projectDir, ".svc", ".build", "handlers", "hello.py")));
  });

  test("does not swallow itself when output puts it into the project", async (t) => {
    const { build } = project(t, { "w.py": HELLO });
    const first = await build({ output: "../out.tar.gz" });
    const second = await build({ output: "../out.tar.gz" });
    assert.deepEqual(second.manifest, first.manifest);
    assert.ok(!tarNames(second.artifactPath).includes("src/out.tar.gz"));
  });

  test("that is too large is refused with its largest packages and an --exclude line", async (t) => {
    const { build } = project(t);
    const { artifactBytes, artifactPath } = await build();
    rmSync(artifactPath);
    await assert.rejects(build({ artifactMaxBytes: artifactBytes - 1 }), (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "ARTIFACT_TOO_LARGE");
      assert.match(error.message, /greeting 2\.0/);
      assert.match(error.help!, /--exclude [\w,-]*greeting/);
      return true;
    });
    assert.ok(!existsSync(artifactPath));
  });
});

describe("dependencies", () => {
  test("leave base packages out, also when another package asks for them, with what only those need", async (t) => {
    const { build } = project(t);
    const built = await build();
    assert.ok(!tarNames(built.artifactPath).some((name) => /numpy/.test(name)));
    assert.deepEqual(built.leftOut, { api: ["numpy<2.5,>=1.20"], new: ["numpy<2.5,>=1.20"], old: ["numpy<3"] });
    assert.deepEqual(built.manifest.resources.new!.baseDependencies, ["numpy<2.5,>=1.20"]);
    const titles = explainBuild(built).map((section) => section.title);
    assert.ok(titles.includes("Packages left out"));
  });

  test("go together with the declared version of a base package, which stays out", async (t) => {
    const worker = (numpy: string) =>
      WORKERS.replace('dependencies=["greeting==1.0", "numpy<3"]', `dependencies=["picky", "${numpy}"]`);
    const cases = [
      ["numpy==1.26.4", "1.0"],
      ["numpy>=1.26", "2.0"],
    ];
    const { build, projectDir } = project(t);
    for (const [numpy, version] of cases) {
      writeFileSync(path.join(projectDir, "w.py"), worker(numpy!));
      const built = await build();
      const layer = built.dependencies.find(({ set }) => set.endpoints.some(({ name }) => name === "old"))!.layer;
      assert.deepEqual(layer.lock, [`picky==${version}`, "tiny==1.0"], numpy);
    }
    writeFileSync(path.join(projectDir, "w.py"), worker("numpy>=4").replace('"picky"', '"picky==2.0"'));
    await assert.rejects(build(), /"picky==2\.0" of endpoint "old" cannot be installed/);
  });

  test("of --exclude stay out, and --no-deps installs only what is listed", async (t) => {
    const { build } = project(t);
    const without = await build({ exclude: ["Tiny"] });
    assert.ok(!tarNames(without.artifactPath).some((name) => /tiny/.test(name)));
    const alone = await build({ noDeps: true });
    assert.ok(!tarNames(alone.artifactPath).some((name) => /tiny/.test(name)));
    assert.ok(tarNames(alone.artifactPath).some((name) => /greeting/.test(name)));
  });

  test("are counted while they are installed", async (t) => {
    const details: string[] = [];
    const { build, folder } = project(t);
    await build({ cacheDir: path.join(folder, "fresh"), onProgress: ({ detail = "" }) => void details.push(detail) });
    assert.ok(
      details.some((detail) => /^api, new: package 2 of 2$/.test(detail)),
      details.join("\n"),
    );
  });

  test("come from the cache for another project with the same requirements, without an installer", async (t) => {
    const first = project(t);
    await first.build();
    const other = path.join(first.folder, "other");
    cpSync(first.projectDir, other, { recursive: true });
    writeFileSync(path.join(other, "w.py"), `${WORKERS}\n# changed\n`);
    const events: string[] = [];
    const built = await buildProject({
      projectDir: other,
      cacheDir: first.cacheDir,
      configDir: base,
      env,
      onProgress: (event) => events.push(event.step),
    });
    assert.deepEqual(events, ["scan", "sources", "archive"]);
    assert.ok(built.dependencies.every(({ layer }) => layer.cached));
  });

  test("that cannot be installed are all reported with their requirement and endpoint", async (t) => {
    const { build } = project(t, {
      "w.py": `from svc import Endpoint
@Endpoint(name="a", dependencies=["no-such-package>=1"])
def a(): ...
@Endpoint(name="b", dependencies=["greeting==2.0", "wants-greeting-one"])
def b(): ...
`,
    });
    await assert.rejects(build(), (error) => {
      assert.ok(error instanceof BuildProblems);
      assert.equal(error.code, "DEPENDENCIES_FAILED");
      const [a, b] = error.diagnostics;
      assert.match(a!.message, /^"no-such-package>=1" of endpoint "a" cannot be installed/);
      assert.equal(`${a!.file}:${a!.line}:${a!.column}`, "w.py:2:34");
      assert.match(b!.message, /wants-greeting-one/);
      assert.match(b!.help, /Loosen|versions/);
      assert.ok(!error.message.includes("Traceback"));
      return true;
    });
  });
});

describe("a rebuild", () => {
  test("of an unchanged project writes nothing and gives the same result", async (t) => {
    const { build } = project(t);
    const first = await build();
    const before = statSync(first.artifactPath, { bigint: true });
    const second = await build();
    assert.deepEqual(second.manifest, first.manifest);
    assert.equal(statSync(second.artifactPath, { bigint: true }).ino, before.ino);
    assert.equal(statSync(second.artifactPath, { bigint: true }).mtimeNs, before.mtimeNs);
  });

  test("after a change of one line gives a new source layer only", async (t) => {
    const { build, projectDir } = project(t);
    const first = await build();
    writeFileSync(path.join(projectDir, "w.py"), WORKERS.replace("return greeting.TEXT", "return 1"));
    const second = await build();
    assert.notEqual(second.manifest.sourceLayer, first.manifest.sourceLayer);
    assert.equal(second.manifest.resources.new!.dependencyLayer, first.manifest.resources.new!.dependencyLayer);
    assert.match(tarText(second.artifactPath, "src/w.py"), /return 1/);
  });

  test("keeps the dependencies' bytes of the archive in place, and gives what a fresh build gives", async (t) => {
    const { build, projectDir } = project(t);
    const first = await build();
    const inode = statSync(first.artifactPath).ino;
    writeFileSync(path.join(projectDir, "w.py"), `${WORKERS}# edited\n`);
    const edited = await build();
    assert.equal(statSync(edited.artifactPath).ino, inode);
    const fresh = await build({ output: "fresh.tar.gz" });
    assert.deepEqual(readFileSync(edited.artifactPath), readFileSync(fresh.artifactPath));
    assert.ok(!existsSync(`${edited.artifactPath}.partial`));
  });

  test("does not touch a copy of the archive that shares its bytes", async (t) => {
    const { build, projectDir, folder } = project(t);
    const first = await build();
    const link = path.join(folder, "linked.tar.gz");
    linkSync(first.artifactPath, link);
    const before = readFileSync(link);
    writeFileSync(path.join(projectDir, "w.py"), `${WORKERS}# edited\n`);
    await build();
    assert.deepEqual(readFileSync(link), before);
  });

  test("notices a large file that changed without changing its size or its time", async (t) => {
    const { build, projectDir } = project(t, { "w.py": HELLO, "weights.bin": Buffer.alloc(400_000, 1) });
    const file = path.join(projectDir, "weights.bin");
    const past = new Date(Date.now() - 60_000);
    utimesSync(file, past, past);
    await build();
    writeFileSync(file, Buffer.alloc(400_000, 2));
    utimesSync(file, past, past);
    const built = await build();
    const content = execFileSync("tar", ["xzOf", built.artifactPath, "src/weights.bin"]);
    assert.equal(content[0], 2);
  });

  test("repairs an artifact or a cached layer that was damaged or removed", async (t) => {
    const { build } = project(t);
    const first = await build();
    const good = readFileSync(first.artifactPath);
    writeFileSync(first.artifactPath, "damaged");
    for (const layer of first.layers) writeFileSync(layer.path, "short");
    const second = await build();
    assert.deepEqual(readFileSync(second.artifactPath), good);
  });
});

describe("secrets", () => {
  test("of env= taken from the environment reach the result, and no file", async (t) => {
    const { build, projectDir, cacheDir } = project(t, {
      "w.py": `import os
from svc import Endpoint
@Endpoint(name="w", env={"TOKEN": os.environ["BUILD_TEST_TOKEN"]})
def w(): ...
`,
      ".env": "BUILD_TEST_TOKEN=from-dotenv\n",
    });
    const built = await build({ env: { ...env, BUILD_TEST_TOKEN: "s3cr3t-value-of-a-test" } });
    assert.deepEqual(built.env, { w: { TOKEN: "s3cr3t-value-of-a-test" } });
    assert.deepEqual(built.manifest.resources.w!.envNames, ["TOKEN"]);
    assert.ok(!tarNames(built.artifactPath).includes("src/.env"));
    const files = [projectDir, cacheDir].flatMap((folder) =>
      readdirSync(folder, { recursive: true, withFileTypes: true }).flatMap((entry) =>
        entry.isFile() ? [path.join(entry.parentPath, entry.name)] : [],
      ),
    );
    for (const file of files) {
      const bytes = readFileSync(file);
      const text = (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("latin1");
      assert.ok(!text.includes("s3cr3t-value-of-a-test"), file);
    }
  });
});
