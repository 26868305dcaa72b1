/**
 * Keys that the CLI keeps, in one file only its owner can read. A key belongs to one platform and is never sent to
 * another: the login to its URL, an embedded platform's first key to the data directory it was made for.
 */
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SvcError } from "../domain/errors.ts";
import { FileHeld, withFileLock } from "../lib/file-lock.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

/** What is done behind the lock takes a moment: who has it for so long stands still. */
const LOCK_MAX_MS = 30_000;

export interface Login {
  readonly url: string;
  readonly apiKey: string;
}

interface Stored {
  readonly login?: Login;
  /** By data directory. */
  readonly embedded?: Readonly<Record<string, Login>>;
}

export class Credentials {
  readonly path: string;

  constructor(configDir: string) {
    this.path = join(configDir, "credentials.json");
  }

  async login(): Promise<Login | undefined> {
    return (await this.#read()).login;
  }

  async embeddedKey(dataDir: string): Promise<string | undefined> {
    return (await this.#read()).embedded?.[dataDir]?.apiKey;
  }

  /** The key stored for a platform's address, however it got here. */
  async keyFor(url: string): Promise<string | undefined> {
    const { login, embedded } = await this.#read();
    if (login?.url === url) return login.apiKey;
    return Object.values(embedded ?? {}).find((entry) => entry.url === url)?.apiKey;
  }

  async saveLogin(login: Login): Promise<void> {
    await this.#change((stored) => ({ ...stored, login }));
  }

  async saveEmbedded(dataDir: string, login: Login): Promise<void> {
    await this.#change((stored) => ({ ...stored, embedded: { ...stored.embedded, [dataDir]: login } }));
  }

  /** False when nobody was logged in. */
  async removeLogin(): Promise<boolean> {
    if ((await this.login()) === undefined) return false;
    await this.#change(({ login: _, ...rest }) => rest);
    return true;
  }

  async #read(): Promise<Stored> {
    let text: string;
    try {
      text = await readFile(this.path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
      throw this.#unusable(error);
    }
    try {
      return JSON.parse(text) as Stored;
    } catch (error) {
      throw this.#unusable(error);
    }
  }

  async #change(change: (stored: Stored) => Stored): Promise<void> {
    try {
      const folder = dirname(this.path);
      makeFolder(folder, 0o700);
      // One command at a time changes what it read.
      await withFileLock(join(folder, "credentials.lock"), LOCK_MAX_MS, async () => {
        const next = change(await this.#read());
        await writeFileAtomic(this.path, `${JSON.stringify(next, null, 2)}\n`, 0o600);
      });
    } catch (error) {
      if (error instanceof FileHeld) {
        throw new SvcError("CONFLICT", "Another svc command that changes the stored keys stands still.", {
          where: this.path,
          help: "End it, or let it go on, and try again.",
          cause: error,
        });
      }
      throw error instanceof SvcError ? error : this.#unusable(error);
    }
  }

  #unusable(cause: unknown): SvcError {
    const reason = cause instanceof SyntaxError ? "it is not JSON" : (cause as Error).message;
    return new SvcError("CONFIG_INVALID", `The stored keys cannot be used: ${reason}.`, {
      where: this.path,
      help: "Repair or remove the file, then run svc login. SVC_CONFIG_DIR chooses another directory.",
      cause,
    });
  }
}
