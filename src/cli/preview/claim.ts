/**
 * Which previews live. Each has a folder below the cache folder and listens on a socket beside it for as long as its
 * process lives:
 *
 *   <cache>/previews/<id>.sock   takes connections: the preview runs; refuses them: it was killed
 *   <cache>/previews/<id>/       everything its platform keeps
 *
 * The system closes the socket with the process, however it ends, so no process id can be mistaken.
 */
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { SOCKET_PATH_MAX_BYTES } from "../../domain/limits.ts";
import { makeFolder } from "../../lib/make-folder.ts";

export interface Claim {
  readonly id: string;
  readonly folder: string;
  readonly socket: string;
  /** Gives up the claim and removes the folder. */
  release(): Promise<void>;
}

export function previewsFolder(cacheDir: string): string {
  return path.join(cacheDir, "previews");
}

export async function claimPreview(cacheDir: string): Promise<Claim> {
  const id = randomBytes(4).toString("hex");
  const folder = path.join(previewsFolder(cacheDir), id);
  const socket = socketOf(folder);
  if (Buffer.byteLength(socket) > SOCKET_PATH_MAX_BYTES) {
    throw new SvcError("DATA_DIRECTORY", "The cache directory's path is too long for a preview.", {
      where: cacheDir,
      help: "Choose a shorter one with SVC_CACHE_DIR.",
    });
  }
  let server: Server;
  try {
    makeFolder(previewsFolder(cacheDir), 0o700);
    server = await listenOn(socket);
    await mkdir(folder, { mode: 0o700 });
  } catch (error) {
    throw new SvcError("DATA_DIRECTORY", `A preview's folder cannot be made: ${(error as Error).message}.`, {
      where: folder,
      help: "Choose another cache directory with SVC_CACHE_DIR.",
      cause: error,
    });
  }
  return {
    id,
    folder,
    socket,
    release: async () => {
      await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function socketOf(folder: string): string {
  return `${folder}.sock`;
}

/** False only when nobody listens there any more; what cannot be found out counts as alive. */
export function ownerLives(socket: string): Promise<boolean> {
  return new Promise<boolean>((resolve) => {
    const probe = connect(socket);
    probe.once("connect", () => resolve(true));
    probe.once("error", ({ code }: NodeJS.ErrnoException) => resolve(code !== "ECONNREFUSED" && code !== "ENOENT"));
    probe.once("close", () => probe.destroy());
  });
}

/** Folders of previews that ended without removing them. */
export async function abandonedFolders(cacheDir: string): Promise<string[]> {
  const entries = await readdir(previewsFolder(cacheDir)).catch(() => []);
  const ids = new Set(entries.map((entry) => entry.replace(/\.sock$/, "")).filter((id) => /^[0-9a-f]{8}$/.test(id)));
  const folders = [...ids].map((id) => path.join(previewsFolder(cacheDir), id));
  const lives = await Promise.all(folders.map((folder) => ownerLives(socketOf(folder))));
  return folders.filter((_, index) => !lives[index]);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  await rm(socketOf(folder), { force: true });
}

function listenOn(socket: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((connection) => connection.destroy());
    server.once("error", reject);
    server.listen(socket, () => resolve(server.unref()));
  });
}
