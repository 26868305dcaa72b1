/** A stranger without a clone: installs what is handed out, on a machine of its own, and uses it. Nothing is fetched. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import { makeArchive, type Platform } from "../../packaging/archive.ts";
import { notYet } from "../../packaging/release.ts";
import { VERSION } from "../../src/domain/version.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { packTar } from "../../src/lib/tar-pack.ts";
import { type HandedOut, handedOut } from "../package.ts";
import { removeFolder } from "../remove-folder.ts";
import { ROOT } from "./platform.ts";

const MB = 1_000_000;
/** Where Debian has Python, and where no Node of ours is. */
const SYSTEM = "/usr/bin:/bin";

let made: HandedOut;
before(async () => {
  made = await handedOut();
});

/** A machine's user who has nothing yet: where root runs the tests, one without rights. */
function stranger(t: TestContext, search: readonly string[]) {
  // Beside what is handed out: a test's own folder is closed to others.
  const home = mkdtempSync(path.join(path.dirname(made.folder), "svc-home-"));
  const uid = 41_000 + (process.pid % 10_000);
  const isRoot = process.getuid?.() === 0 && !process.execPath.startsWith(homedir());
  if (isRoot) chownSync(home, uid, uid);
  const env = {
    HOME: home,
    PATH: [...search.map((dir) => path.resolve(home, dir)), SYSTEM].join(":"),
    SVC_EMULATE_GPU: "1",
    SVC_PORT: "0",
    NO_COLOR: "1",
    CI: "1",
  };
  const as = isRoot ? ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--"] : [];
  const command = (words: readonly string[]) => [...as, ...words] as [string, ...string[]];
  const run = async (cwd: string, ...words: string[]) => {
    const [program, ...args] = command(words);
    return runProcess(program, args, { cwd: path.join(home, cwd), env });
  };
  t.after(async () => {
    await run("", "sh", "-c", "command -v svc && svc platform stop --now");
    await removeFolder(home);
  });
  return { home, env, command, run };
}

/** Beside what is handed out: a stranger may read there. */
function openFolder(t: TestContext): string {
  const folder = mkdtempSync(path.join(path.dirname(made.folder), "svc-dist-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  return folder;
}

type Stranger = ReturnType<typeof stranger>;

/** What the README shows to a newcomer, with svc as it is on the user's PATH. */
async function firstSteps(t: TestContext, user: Stranger): Promise<void> {
  const svc = async (...args: string[]) => {
    const { code, stdout, stderr } = await user.run(args[0] === "init" ? "" : "hello", "svc", ...args);
    assert.equal(code, 0, `svc ${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };
  await svc("init", "hello");
  await svc("build");
  assert.match(await svc("deploy"), /cpu_worker/);
  assert.match(await svc("call", "cpu_worker", "numbers=[1, 2, 3]"), /"mean": 2/);

  const [program, ...args] = user.command(["svc", "run", "--port", "0"]);
  const server = spawn(program, args, { cwd: path.join(user.home, "hello"), env: user.env });
  t.after(() => server.kill("SIGKILL"));
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    for (const stream of [server.stdout, server.stderr]) {
      stream.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        const [found] = /http:\/\/localhost:\d+/.exec(text) ?? [];
        if (found !== undefined) resolve(found);
      });
    }
    server.once("exit", () => reject(new Error(text)));
  });
  const answer = await fetch(`${url}/cpu_worker/runsync`, {
    method: "POST",
    body: JSON.stringify({ input: { numbers: [4, 6] } }),
  });
  assert.equal((await answer.json()).output.mean, 5);
  const page = await (await fetch(`${url}/docs`)).text();
  const assets = [...page.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, asset]) => new URL(asset!, `${url}/docs`));
  for (const asset of assets) assert.equal((await fetch(asset)).status, 200, asset.href);
  server.removeAllListeners("exit").kill("SIGINT");
  await once(server, "exit");

  const { url: platform } = JSON.parse(await svc("platform", "status", "--json"));
  assert.match(await (await fetch(`${platform}/console/login`)).text(), /<html/);
  await svc("undeploy", "--all", "--force");
  assert.match(await svc("platform", "stop"), /has stopped/);
}

test("npm install -g of the package, in a prefix of its own, brings a svc that needs no other package", async (t) => {
  const user = stranger(t, ["prefix/bin", path.dirname(process.execPath)]);
  const file = path.join(made.folder, made.npm);
  assert.ok(statSync(file).size <= 2.2 * MB, `${statSync(file).size} bytes`);
  const npm = path.join(path.dirname(await whereIs("npm")), "npm");
  const options = ["--offline", "--no-audit", "--no-fund", "--prefix", "prefix", "--cache", "cache"];
  const { code, stderr } = await user.run("", npm, "install", "-g", ...options, file);
  assert.equal(code, 0, stderr);
  const installed = path.join(user.home, "prefix/lib/node_modules");
  assert.deepEqual(globSync("*", { cwd: installed }), ["svc-platform"]);
  assert.equal(existsSync(path.join(installed, "svc-platform/node_modules")), false);
  assert.ok(sizeOf(installed) < 12 * MB, `${sizeOf(installed)} bytes`);
  // What an installed package does further is in test/client/installed.test.ts.
  for (const [cwd, ...words] of [
    ["", "init", "hello"],
    ["hello", "build"],
  ] as const) {
    const { code, stdout, stderr } = await user.run(cwd, "svc", ...words);
    assert.equal(code, 0, `${stdout}${stderr}`);
  }
});

describe("The archive", () => {
  test("install.sh installs a svc with a Node of its own, where there is neither Node nor npm", async (t) => {
    const user = stranger(t, [".local/bin"]);
    const script = path.join(made.folder, "install.sh");
    const { code, stdout, stderr } = await user.run("", "sh", script);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^svc ${VERSION} is installed: ${user.home}/.local/bin/svc$`, "m"));
    assert.equal(readlinkSync(path.join(user.home, ".local/bin/svc")), `../lib/svc/${VERSION}/bin/svc`);
    assert.deepEqual(globSync(".*/**/.*", { cwd: user.home }), [], "nothing half done is left");
    await firstSteps(t, user);
    const again = await user.run("", "sh", script);
    assert.equal(again.code, 0, again.stderr);
    assert.equal(
      (await user.run("", "svc", "--version")).stdout,
      `${VERSION}\n`,
      "installing twice is installing once",
    );
  });

  const refused = async (t: TestContext, folder: string, says: RegExp) => {
    const user = stranger(t, []);
    const { code, stdout, stderr } = await user.run("", "sh", path.join(folder, "install.sh"), "--prefix", "p");
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, says);
    assert.doesNotMatch(stderr, /^\s+at |Traceback/m);
    const left = globSync("**", { cwd: path.join(user.home, "p"), withFileTypes: true }).filter((one) => one.isFile());
    assert.deepEqual(left, [], "nothing was installed");
  };
  /** The folder with another archive in it. */
  const changed = (t: TestContext): string => {
    const folder = openFolder(t);
    for (const name of ["install.sh", "SHA256SUMS"])
      copyFileSync(path.join(made.folder, name), path.join(folder, name));
    return folder;
  };

  test("one that somebody changed, or that cannot be checked, is refused before it is unpacked", async (t) => {
    const folder = changed(t);
    await refused(t, folder, /svc-.*\.tar\.gz is missing/);
    copyFileSync(path.join(made.folder, made.archive), path.join(folder, made.archive));
    appendFileSync(path.join(folder, made.archive), "x");
    await refused(t, folder, /is not what SHA256SUMS says: nothing was installed/);
    const sums = path.join(folder, "SHA256SUMS");
    writeFileSync(sums, readFileSync(sums, "utf8").replace(/^.*tar\.gz\n/m, ""));
    await refused(t, folder, /SHA256SUMS does not name svc-.*tar\.gz/);
    rmSync(sums);
    await refused(t, folder, /SHA256SUMS is missing: the archive cannot be checked/);
  });

  test("one of another machine, or whose Node does not run here, is refused in words", async (t) => {
    const folder = changed(t);
    for (const [platform, says] of [
      ["linux-s390x", /is for linux-s390x, this machine is/],
      [made.archive.slice("svc-".length, -".tar.gz".length), /does not run here/],
    ] as const) {
      const entry = (name: string, text: string) => ({
        name: `top/${name}`,
        content: Buffer.from(text),
        executable: true,
      });
      const parts: Buffer[] = [];
      for await (const part of packTar([entry("PLATFORM", platform), entry("bin/svc", "#!/bin/sh\nexit 127\n")])) {
        parts.push(part);
      }
      const archive = gzipSync(Buffer.concat([...parts, Buffer.alloc(1024)]));
      writeFileSync(path.join(folder, made.archive), archive);
      const sum = createHash("sha256").update(archive).digest("hex");
      writeFileSync(path.join(folder, "SHA256SUMS"), `${sum}  ${made.archive}\n`);
      await refused(t, folder, says);
    }
  });
});

test("Archives for other machines have the Node of that machine, and install.sh takes the one that uname names", async (t) => {
  const folder = openFolder(t);
  await runProcess("tar", ["-xzf", path.join(made.folder, made.npm), "-C", folder]);
  const user = stranger(t, ["fake"]);
  const machines = {
    "linux-arm64": ["Linux", "aarch64", "7f454c46", 18, "b700"],
    "darwin-arm64": ["Darwin", "arm64", "cffaedfe", 4, "0c000001"],
  } as const;
  for (const [platform, [system, machine, magic, at, processor]] of Object.entries(machines)) {
    const archive = await makeArchive(folder, path.join(folder, "package"), [], platform as Platform, 0);
    const { stdout } = await runProcess("tar", ["-xzOf", archive, "--occurrence=1", "--wildcards", "*/PLATFORM"]);
    assert.equal(stdout, `${platform}\n`);
    const head = `tar -xzOf ${archive} --wildcards '*/node/bin/node' | head -c 20 | od -An -v -tx1`;
    const bytes = (await runProcess("sh", ["-c", head])).stdout.replace(/\s/g, "");
    assert.equal(bytes.slice(0, 8), magic, platform);
    assert.equal(bytes.slice(2 * at, 2 * at + processor.length), processor, platform);

    copyFileSync(path.join(made.folder, "install.sh"), path.join(folder, "install.sh"));
    const fake = `#!/bin/sh\ncase $1 in -s) echo ${system} ;; -m) echo ${machine} ;; esac\n`;
    const uname = path.join(user.home, "fake/uname");
    mkdirSync(path.dirname(uname), { recursive: true });
    writeFileSync(uname, fake, { mode: 0o755 });
    const sum = createHash("sha256").update(readFileSync(archive)).digest("hex");
    writeFileSync(path.join(folder, "SHA256SUMS"), `${sum}  svc-${platform}.tar.gz\n`);
    const { code, stderr } = await user.run("", "sh", path.join(folder, "install.sh"), "--prefix", "p");
    // Chosen, checked and unpacked; its Node is not this machine's.
    assert.deepEqual([code, stderr.includes(`what is in svc-${platform}.tar.gz does not run here`)], [1, true], stderr);
    rmSync(archive);
  }
});

test("The README names what is handed out", () => {
  const readme = readFileSync(path.join(ROOT, "README.md"), "utf8");
  for (const text of ["sh install.sh", made.archive, `npm install -g ./${made.npm}`, `svc@file:${made.npm}`]) {
    assert.ok(readme.includes(text), text);
  }
});

test("make dist says what stands against a release: changes, a tag, a version without its lines", async (t) => {
  const clone = openFolder(t);
  const write = (file: string, text: string) => writeFileSync(path.join(clone, file), text);
  const git = (...args: string[]) =>
    runProcess("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: clone });
  write("README.md", "npm install ./svc-platform-0.0.9.tgz");
  write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- A thing\n\n## 0.0.9\n");
  await git("init", "-q");
  const [first, second, third, fourth] = await notYet(clone);
  assert.match(first!, /no heading for/);
  assert.match(second!, /lines under Unreleased/);
  assert.match(third!, /README\.md names another version/);
  assert.match(fourth!, /not committed/);
  write("README.md", `npm install ./svc-platform-${VERSION}.tgz`);
  write("CHANGELOG.md", `# Changelog\n\n## Unreleased\n\n## ${VERSION}\n\n- A thing\n`);
  await git("add", ".");
  await git("commit", "-qm", "all");
  assert.deepEqual(await notYet(clone), [`The commit has no tag v${VERSION}.`]);
  await git("tag", `v${VERSION}`);
  assert.deepEqual(await notYet(clone), []);
});

test("With it come a bill of materials and the licences of all that it contains", () => {
  const bom = JSON.parse(readFileSync(path.join(made.folder, "bom.cdx.json"), "utf8"));
  const names = bom.components.map(({ name }: { name: string }) => name);
  for (const name of ["zod", "kysely", "graphql", "dockerode", "preact", "swagger-ui-dist"]) {
    assert.ok(names.includes(name), `${name} is named`);
  }
  const texts = readFileSync(path.join(made.folder, "THIRD-PARTY-LICENSES"), "utf8");
  const allowed = /^(MIT|ISC|0BSD|Apache-2\.0|BSD-[23]-Clause|Unlicense)$/;
  for (const { name, version, licenses } of bom.components) {
    assert.match(licenses[0].expression, allowed, name);
    assert.ok(texts.includes(`${name} ${version} (`), name);
  }
  const locked = JSON.parse(readFileSync(path.join(ROOT, "package-lock.json"), "utf8")).packages;
  const versions = new Set(
    Object.entries<{ version: string }>(locked).map(
      ([at, { version }]) => `${at.replace(/^.*node_modules\//, "")} ${version}`,
    ),
  );
  for (const { name, version } of bom.components) assert.ok(versions.has(`${name} ${version}`), `${name} ${version}`);
});

function sizeOf(folder: string): number {
  const files = globSync("**", { cwd: folder, withFileTypes: true }).filter((one) => one.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(path.join(parentPath, name)).size, 0);
}

async function whereIs(program: string): Promise<string> {
  const { stdout } = await runProcess("sh", ["-c", `command -v ${program}`], { env: process.env });
  return stdout.trim();
}
