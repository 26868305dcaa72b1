/**
 * What is handed out: the npm package, the wheel, an archive with Node for each platform, install.sh, what makes a container image of an
 * archive, the bill of materials, the licences of others, and SHA256SUMS of them all.
 */
import { createHash } from "node:crypto";
import { copyFileSync, createReadStream, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { makeArchive, type Platform } from "./archive.ts";
import { makePackage } from "./package.ts";
import { ROOT } from "./run.ts";

/** Of the platform's image, which is built in the folder of its archive. */
const IMAGE_FILES = ["Caddyfile", "Dockerfile", "compose.yaml", "seccomp.json"];

/** Into `folder`, which is emptied before; `quickly`: not as small as may be. */
export async function makeAll(folder: string, platforms: readonly Platform[], quickly = false): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const made = await makePackage(folder, quickly ? 9 : undefined);
  for (const platform of platforms)
    await makeArchive(folder, made.folder, made.parties, platform, quickly ? 0 : undefined);
  for (const file of ["THIRD-PARTY-LICENSES", "bom.cdx.json"])
    copyFileSync(path.join(made.folder, file), path.join(folder, file));
  copyFileSync(path.join(ROOT, "packaging/install.sh"), path.join(folder, "install.sh"));
  for (const file of IMAGE_FILES) copyFileSync(path.join(ROOT, "deploy/platform", file), path.join(folder, file));
  rmSync(made.folder, { recursive: true });
  await writeSums(folder);
}

async function writeSums(folder: string): Promise<void> {
  let lines = "";
  for (const name of readdirSync(folder).sort()) {
    const hash = createHash("sha256");
    await pipeline(createReadStream(path.join(folder, name)), hash);
    lines += `${hash.digest("hex")}  ${name}\n`;
  }
  writeFileSync(path.join(folder, "SHA256SUMS"), lines);
}
