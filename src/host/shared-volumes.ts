import { readFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { VOLUMES_MARK } from "../domain/volume.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { WrongPlatform } from "./dial.ts";

/** Throws CONFIG_INVALID when the files there are not those of the platform's volumes. Nobody can tell while their disk is away. */
export async function checkShared(disk: NetworkFolder, platformId: string): Promise<void> {
  const file = path.join(disk.path, VOLUMES_MARK);
  const read = disk.run(() => readFile(file, "utf8"));
  const found = await read.catch((error) => (error instanceof SvcError ? undefined : ""));
  if (platformId === "" || found === undefined || found.trim() === platformId) return;
  throw new WrongPlatform("CONFIG_INVALID", "This folder does not hold the platform's volumes.", {
    where: file,
    help: "Mount the folder of the platform's volumes (SVC_VOLUMES_DIR there) and name it by --shared-volumes, or leave the flag out.",
  });
}
