/** Small files by kind and key, each with an HMAC over kind, key and content: one that somebody else wrote, or moved, is not there. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

export class SignedRecords {
  readonly #dir: string;
  readonly #key: Uint8Array;

  constructor(dir: string, key: Uint8Array) {
    this.#dir = dir;
    this.#key = key;
  }

  path(kind: string, key: string): string {
    return path.join(this.#dir, kind, `${key}.json`);
  }

  read<T>(kind: string, key: string): T | undefined {
    try {
      const { mac, record } = JSON.parse(readFileSync(this.path(kind, key), "utf8")) as { mac: string; record: T };
      const right = this.#mac(kind, key, JSON.stringify(record));
      return timingSafeEqual(Buffer.from(mac, "base64url"), right) ? record : undefined;
    } catch {
      return undefined;
    }
  }

  async write(kind: string, key: string, record: unknown): Promise<void> {
    const text = JSON.stringify(record);
    const mac = this.#mac(kind, key, text).toString("base64url");
    await writeFileAtomic(this.path(kind, key), `{"mac":"${mac}","record":${text}}`);
  }

  #mac(kind: string, key: string, text: string): Buffer {
    return createHmac("sha256", this.#key)
      .update(JSON.stringify([kind, key]))
      .update(text)
      .digest();
  }
}
