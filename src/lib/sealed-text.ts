/**
 * Texts that only the holder of a key can read: AES-256-GCM with a fresh nonce each, bound to a label, so that a
 * sealed text put in another's place does not open. Form: "v1.<nonce>.<tag>.<ciphertext>", base64url.
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
  readonly #key: Uint8Array;

  /** `key` has SEAL_KEY_BYTES random bytes. */
  constructor(key: Uint8Array) {
    this.#key = key;
  }

  seal(text: string, label: string): string {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(Buffer.from(label));
    const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
    return ["v1", ...[nonce, cipher.getAuthTag(), sealed].map((part) => part.toString("base64url"))].join(".");
  }

  /** Throws when the key or the label is another one, or a byte was changed. */
  open(sealed: string, label: string): string {
    const [version, nonce = "", tag = "", text = ""] = sealed.split(".");
    if (version !== "v1") throw new Error("The sealed text has an unknown form.");
    const decipher = createDecipheriv(ALGORITHM, this.#key, Buffer.from(nonce, "base64url"), { authTagLength: 16 });
    decipher.setAAD(Buffer.from(label)).setAuthTag(Buffer.from(tag, "base64url"));
    return decipher.update(Buffer.from(text, "base64url"), undefined, "utf8") + decipher.final("utf8");
  }
}
