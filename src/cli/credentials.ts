/**
 * Keys that the CLI keeps, in one file only its owner can read. A key belongs to one platform and is never sent to
 * another: the login to its URL, an embedded platform's first key to the data directory it was made for.
 */
import { chmod, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SvcError } from "../domain/errors.ts";
import { makeFolder } from "../lib/make-folder.ts";

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
    await this.#write({ ...(await this.#read()), login });
  }

  async saveEmbedded(dataDir: string, login: Login): Promise<void> {
    const stored = await this.#read();
    await this.#write({ ...stored, embedded: { ...stored.embedded, [dataDir]: login } });
  }

  /** False when nobody was logged in. */
  async removeLogin(): Promise<boolean> {
    const { login, ...rest } = await this.#read();
    if (login === undefined) return false;
    await this.#write(rest);
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

  async #write(stored: Stored): Promise<void> {
    const temporary = `${this.path}.${process.pid}`;
    try {
      makeFolder(dirname(this.path), 0o700);
      await writeFile(temporary, `${JSON.stringify(stored, null, 2)}\n`, { mode: 0o600 });
      await chmod(temporary, 0o600);
      await rename(temporary, this.path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw this.#unusable(error);
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
