/** To collect fewer is as cheap, and a smaller buffer may be part of one that several share. */
const FREED_MIN_BYTES = 16 * 1024;

/**
 * Gives back the memory of bytes that nobody reads any more: they become empty. What lies outside its heap V8 collects late, and
 * the whole heap with it. Bytes that are only a part of their buffer stay as they are.
 */
export function freeBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < FREED_MIN_BYTES || byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
