/**
 * usage: node packaging/main.ts [PLATFORM…]
 * Writes what is handed out into dist/, with an archive for each platform; default: the one this is.
 */
import { readdirSync } from "node:fs";
import path from "node:path";
import { PLATFORMS } from "./archive.ts";
import { makeAll } from "./make-all.ts";
import { notYet } from "./release.ts";
import { ROOT } from "./run.ts";

const given = process.argv.slice(2);
const wanted = given.length > 0 ? given : [`${process.platform}-${process.arch}`];
const platforms = PLATFORMS.filter((platform) => wanted.includes(platform));
if (platforms.length < wanted.length) {
  process.stderr.write(`error: archives are made for ${PLATFORMS.join(", ")}; not for ${wanted.join(" ")}\n`);
  process.exitCode = 2;
} else {
  const folder = path.join(ROOT, "dist");
  await makeAll(folder, platforms);
  for (const name of readdirSync(folder).sort()) process.stdout.write(`dist/${name}\n`);
  const missing = await notYet(ROOT);
  if (missing.length > 0)
    process.stdout.write(`\nNot for a release yet (CONTRIBUTING.md):\n  ${missing.join("\n  ")}\n`);
}
