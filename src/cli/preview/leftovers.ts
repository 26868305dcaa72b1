/**
 * Removes what previews with this cache folder left that were killed: platforms, containers, networks, folders. Those that
 * run stay untouched, and so does what belongs to another cache folder: only its owner can tell whether it lives.
 */
import { rm } from "node:fs/promises";
import path from "node:path";
import { livingPlatform } from "../platform/record.ts";
import type { Terminal } from "../terminal.ts";
import { abandonedFolders, ownerLives, previewsFolder, removeFolder } from "./claim.ts";
import type { Engine } from "./engine.ts";

export async function removeLeftovers(terminal: Terminal, engine: Engine, cacheDir: string): Promise<void> {
  const folders = await abandonedFolders(cacheDir);
  const dead = [];
  const mine = (await engine.remains()).filter(({ owner }) => path.dirname(owner) === previewsFolder(cacheDir));
  for (const remains of mine) {
    if (!(await ownerLives(remains.owner))) dead.push(remains);
  }
  // The platform first: it would start its workers again.
  await Promise.all(folders.map(endPlatform));
  for (const remains of dead) {
    await engine.remove(remains);
    await rm(remains.owner, { force: true });
  }
  await Promise.all(folders.map(removeFolder));

  const previews = new Set([...folders.map((folder) => path.basename(folder)), ...dead.map(({ id }) => id)]).size;
  if (previews === 0) return;
  const parts = [
    counted(dead.flatMap(({ containers }) => containers).length, "container"),
    counted(dead.flatMap(({ networks }) => networks).length, "network"),
    counted(folders.length, "folder"),
  ].filter((text) => text !== "");
  const who = previews === 1 ? "an interrupted preview" : `${previews} interrupted previews`;
  terminal.note(`Removed what ${who} left: ${parts.join(", ")}.`);
}

async function endPlatform(folder: string): Promise<void> {
  const platform = await livingPlatform(folder);
  if (platform === undefined) return;
  try {
    process.kill(platform.pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

function counted(number: number, thing: string): string {
  return number === 0 ? "" : `${number} ${thing}${number === 1 ? "" : "s"}`;
}
