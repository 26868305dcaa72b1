/**
 * What an agent keeps on its machine, closed to others:
 *
 *   host.json   the platform it joined, and the secret that it proves itself with
 *   agent.lock  one agent at a time, kept out by the kernel
 *   host.log    what its launcher says
 *   run/        the socket where its launcher dials
 */
import { chmodSync, mkdirSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { SOCKET_PATH_MAX_BYTES } from "../domain/limits.ts";
import { refuseSmallFiles } from "../domain/storage.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { fileMaxBytes } from "../lib/process-limits.ts";
import { isLockedError, openSqlite, type SqliteDatabase } from "../lib/sqlite.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

const membership = z.object({
  url: z.string(),
  fingerprint: z.string(),
  name: z.string(),
  hostId: z.string(),
  secret: z.string(),
  /** Where the platform was reached last. */
  host: z.string(),
  port: z.int(),
});

/** Of a platform that let this machine in. */
export type Membership = z.infer<typeof membership>;

export class HostDirectory {
  readonly path: string;
  readonly #lock: SqliteDatabase;

  private constructor(folder: string, lock: SqliteDatabase) {
    this.path = folder;
    this.#lock = lock;
  }

  /** Makes it when it is missing. Throws DATA_DIRECTORY, and CONFLICT while another agent has it. */
  static open(folder: string): HostDirectory {
    refuseSmallFiles(fileMaxBytes());
    try {
      makeFolder(folder, 0o700);
      chmodSync(folder, 0o700);
      return new HostDirectory(folder, openSqlite(path.join(folder, "agent.lock"), "normal"));
    } catch (error) {
      if (isLockedError(error)) {
        throw new SvcError("CONFLICT", "Another agent runs on this machine with the same data directory.", {
          where: folder,
          help: "Stop it first (systemctl stop svc-host, where it is a service), or give this one a directory of its own: --data-dir DIR.",
        });
      }
      throw new SvcError("DATA_DIRECTORY", `The data directory cannot be used: ${(error as Error).message}.`, {
        where: folder,
        help: "Choose another with --data-dir.",
        cause: error,
      });
    }
  }

  get membership(): Membership | undefined {
    try {
      return membership.parse(JSON.parse(readFileSync(this.#file, "utf8")));
    } catch {
      return undefined;
    }
  }

  async remember(joined: Membership): Promise<void> {
    await writeFileAtomic(this.#file, JSON.stringify(joined), 0o600);
  }

  /** In a folder of its own. Throws DATA_DIRECTORY. */
  socketPath(): string {
    const file = path.join(this.path, "run", "agent.sock");
    if (Buffer.byteLength(file) > SOCKET_PATH_MAX_BYTES) {
      throw new SvcError("DATA_DIRECTORY", "The path of the data directory is too long for a socket in it.", {
        where: this.path,
        help: "Choose a shorter one with --data-dir.",
      });
    }
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    return file;
  }

  /** Descriptor of its log, which others than the agent write to. */
  openLog(): number {
    return openSync(path.join(this.path, "host.log"), "a", 0o600);
  }

  close(): void {
    this.#lock.close();
  }

  get #file(): string {
    return path.join(this.path, "host.json");
  }
}
