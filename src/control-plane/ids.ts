const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
/** Bytes from here on would make the first letters likelier than the rest. */
const FAIR_BYTES = 256 - (256 % ALPHABET.length);

export const ENDPOINT_ID_CHARS = 14;

/** A random id of a-z0-9 that starts with a letter: fit for a DNS label, a file name and a URL. */
export function randomId(random: (bytes: number) => Uint8Array, length: number = ENDPOINT_ID_CHARS): string {
  let id = "";
  while (id.length < length) {
    for (const byte of random(length)) {
      const letter = ALPHABET[byte % ALPHABET.length]!;
      if (byte >= FAIR_BYTES || (id === "" && letter <= "9")) continue;
      id += letter;
      if (id.length === length) break;
    }
  }
  return id;
}
