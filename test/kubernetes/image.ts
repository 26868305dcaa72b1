/**
 * Images without a registry or an engine: a root file system and what install.sh puts beside it, with the settings of deploy/platform/Dockerfile,
 * as the tar file that containerd imports.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { runProcess } from "../../src/lib/run-process.ts";
import { rootfsForTests } from "../docker.ts";
import { handedOut } from "../package.ts";

const DOCKERFILE = path.resolve(import.meta.dirname, "../../deploy/platform/Dockerfile");

interface Image {
  readonly name: string;
  /** Tar files, the lowest first. */
  readonly layers: readonly string[];
  readonly config: object;
}

/** The platform's image over a root file system with Python; resolves its file. */
export async function platformImage(folder: string, name: string): Promise<string> {
  const rootfs = await rootfsForTests();
  const made = await handedOut();
  const root = mkdtempSync(path.join(tmpdir(), "svc-image-"));
  try {
    await done("sh", [path.join(made.folder, "install.sh"), "--prefix", path.join(root, "usr/local")]);
    const layer = path.join(folder, "installed.tar");
    await done("tar", ["-C", root, "--owner=0", "--group=0", "-cf", layer, "."]);
    return await writeImage(
      { name, layers: [rootfs, layer], config: settingsOf(readFileSync(DOCKERFILE, "utf8")) },
      folder,
    );
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** An endpoint's own: Python, and files, a package and a variable that no other image has. It knows nothing of svc. */
export async function ownImage(folder: string, name: string): Promise<string> {
  const rootfs = await rootfsForTests();
  const root = path.join(folder, "own");
  const packages = path.join(root, "usr/lib/python3/dist-packages");
  mkdirSync(path.join(root, "opt/own"), { recursive: true });
  mkdirSync(packages, { recursive: true });
  writeFileSync(path.join(root, "opt/own/greeting.txt"), "hello\n");
  writeFileSync(path.join(packages, "ownwords.py"), 'WORDS = "a package of the image"\n');
  const layer = path.join(folder, "own-layer.tar");
  await done("tar", ["-C", root, "--owner=0", "--group=0", "-cf", layer, "."]);
  const config = { Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "MODE=own"], Entrypoint: ["/bin/false"], User: "0:0" };
  return writeImage({ name, layers: [rootfs, layer], config }, folder);
}

/** What a Pod's namespaces hang on: a program that waits. */
export async function pauseImage(folder: string): Promise<string> {
  const root = path.join(folder, "pause");
  const source = path.join(folder, "pause.c");
  mkdirSync(root, { recursive: true });
  writeFileSync(
    source,
    "#include <signal.h>\n#include <unistd.h>\nstatic void end(int s) { _exit(0); }\nint main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, SIG_IGN); for (;;) pause(); }\n",
  );
  await done("cc", ["-static", "-Os", "-o", path.join(root, "pause"), source]);
  const layer = path.join(folder, "pause-layer.tar");
  await done("tar", ["-C", root, "--owner=0", "--group=0", "-cf", layer, "."]);
  return writeImage({ name: "localhost/pause:1", layers: [layer], config: { Entrypoint: ["/pause"] } }, folder);
}

/** As the last stage of a Dockerfile says it. */
function settingsOf(text: string): object {
  const stage = text.slice(text.lastIndexOf("\nFROM "));
  const last = (word: string) => [...stage.matchAll(new RegExp(`^${word} (.*)$`, "gm"))].at(-1)![1]!;
  const env = last("ENV").split(" ");
  return {
    ...{ User: last("USER"), WorkingDir: last("WORKDIR"), Entrypoint: JSON.parse(last("ENTRYPOINT")) },
    ...{ Cmd: JSON.parse(last("CMD")), Env: ["PATH=/usr/local/bin:/usr/bin:/bin", ...env] },
  };
}

async function writeImage({ name, layers, config }: Image, folder: string): Promise<string> {
  const at = mkdtempSync(path.join(folder, "image-"));
  const digests: string[] = [];
  for (const layer of layers) {
    const hash = createHash("sha256");
    await pipeline(createReadStream(layer), hash);
    const digest = hash.digest("hex");
    digests.push(digest);
    mkdirSync(path.join(at, digest));
    symlinkSync(path.resolve(layer), path.join(at, digest, "layer.tar"));
  }
  const architecture = process.arch === "x64" ? "amd64" : process.arch;
  const diffIds = digests.map((digest) => `sha256:${digest}`);
  const about = { architecture, os: "linux", config, rootfs: { type: "layers", diff_ids: diffIds } };
  writeFileSync(path.join(at, "config.json"), JSON.stringify(about));
  const manifest = { Config: "config.json", RepoTags: [name], Layers: digests.map((digest) => `${digest}/layer.tar`) };
  writeFileSync(path.join(at, "manifest.json"), JSON.stringify([manifest]));
  const file = `${at}.tar`;
  await done("tar", ["-C", at, "--dereference", "-cf", file, "manifest.json", "config.json", ...digests]);
  rmSync(at, { recursive: true });
  assert.ok(statSync(file).size > 0);
  return file;
}

async function done(command: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runProcess(command, args, { env: process.env });
  assert.equal(code, 0, `${command} ${args.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}
