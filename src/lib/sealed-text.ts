/**
 * Texts that only the holder of a key can read: AES-256-GCM with a fresh nonce each, bound to a label, so that a
 * sealed text put in another's place does not open. Form: "v1.<nonce>.<tag>.<ciphertext>", base64url. It does not name its key:
 * the tag tells which one it is.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const NONCE_BYTES = 12;

export const SEAL_KEY_BYTES = 32;

/** Bytes of the text inside, which sealing keeps. */
export function sealedBytes(sealed: string): number {
  return Buffer.byteLength(sealed.split(".")[3] ?? "", "base64url");
}

export class SealedText {
  readonly #keys: readonly Uint8Array[];

  /** SEAL_KEY_BYTES random bytes each. The first seals, all open. */
  constructor(...keys: readonly [Uint8Array, ...Uint8Array[]]) {
    this.#keys = keys;
  }

  /** There may be texts that were sealed with another key than the first. */
  get hasOlderKeys(): boolean {
    return this.#keys.length > 1;
  }

  seal(text: string, label: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#keys[0]!, nonce).setAAD(Buffer.from(label));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return ["v1", ...[nonce, cipher.getAuthTag(), sealed].map((part) => part.toString("base64url"))].join(".");
  }

  /** Throws when none of the keys fits, the label is another one, or a byte was changed. */
  open(sealed: string, label: string): string {
    return this.#open(sealed, label).text;
  }

  /** The same text under the first key; undefined when it is that already. Throws as open does. */
  sealedAnew(sealed: string, label: string): string | undefined {
    const { text, key } = this.#open(sealed, label);
    return key === this.#keys[0] ? undefined : this.seal(text, label);
  }

  #open(sealed: string, label: string): { readonly text: string; readonly key: Uint8Array } {
    const [version, ...parts] = sealed.split(".");
    if (version !== "v1") throw new Error("The sealed text has an unknown form.");
    let problem: unknown;
    for (const key of this.#keys) {
      try {
        return { text: openWith(key, parts, label), key };
      } catch (error) {
        problem ??= error;
      }
    }
    throw problem;
  }
}

function openWith(key: Uint8Array, [nonce = "", tag = "", text = ""]: readonly string[], label: string): string {
  const decipher = createDecipheriv(ALGORITHM, key, Buffer.from(nonce, "base64url"), { authTagLength: 16 });
  decipher.setAAD(Buffer.from(label)).setAuthTag(Buffer.from(tag, "base64url"));
  return decipher.update(Buffer.from(text, "base64url"), undefined, "utf8") + decipher.final("utf8");
}
