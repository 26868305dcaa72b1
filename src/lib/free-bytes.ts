/** To collect fewer is as cheap, and a smaller buffer may be part of one that several share. */
const FREED_MIN_BYTES = 16 * 1024;

/**
 * Gives back the memory of bytes that nobody reads any more: they become empty. What lies outside its heap V8 collects late, and
 * the whole heap with it. Bytes that are only a part of their buffer stay as they are.
 */
export function freeBytes(bytes: Uint8Array): void {
  if (bytes.byteLength === bytes.buffer.byteLength) freeBuffer(bytes);
}

/** The same for all of the buffer that they are a part of. */
export function freeBuffer({ buffer }: Uint8Array): void {
  if (buffer.byteLength >= FREED_MIN_BYTES && buffer instanceof ArrayBuffer) buffer.transfer(0);
}
