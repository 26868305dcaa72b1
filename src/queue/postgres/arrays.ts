/** Arrays in PostgreSQL's binary format: `pg` sends a Buffer as it is, and an array of text costs both sides several times as much. */

const OID = { int2: 21, int4: 23, int8: 20, text: 25, bytea: 17 } as const;
export type ColumnType = keyof typeof OID;
export type ColumnValue = number | string | Uint8Array | null | undefined;

const HEADER_BYTES = 20;

/** One dimension, from 1. null and undefined are NULL. */
export function arrayOf(type: ColumnType, values: readonly ColumnValue[]): Buffer {
  let size = HEADER_BYTES;
  let nulls = 0;
  for (const value of values) {
    if (value === null || value === undefined) nulls = 1;
    size += 4 + bytesOf(type, value);
  }
  const buffer = Buffer.allocUnsafe(size);
  buffer.writeInt32BE(values.length === 0 ? 0 : 1, 0);
  buffer.writeInt32BE(nulls, 4);
  buffer.writeInt32BE(OID[type], 8);
  buffer.writeInt32BE(values.length, 12);
  buffer.writeInt32BE(1, 16);
  let at = HEADER_BYTES;
  for (const value of values) at = write(buffer, at, type, value);
  return values.length === 0 ? buffer.subarray(0, 12) : buffer;
}

function bytesOf(type: ColumnType, value: ColumnValue): number {
  if (value === null || value === undefined) return 0;
  if (type === "int2") return 2;
  if (type === "int4") return 4;
  if (type === "int8") return 8;
  return typeof value === "string" ? Buffer.byteLength(value) : (value as Uint8Array).byteLength;
}

function write(buffer: Buffer, start: number, type: ColumnType, value: ColumnValue): number {
  if (value === null || value === undefined) return buffer.writeInt32BE(-1, start);
  const length = bytesOf(type, value);
  const at = buffer.writeInt32BE(length, start);
  if (type === "int2") return buffer.writeInt16BE(value as number, at);
  if (type === "int4") return buffer.writeInt32BE(value as number, at);
  if (type === "int8") return writeInt8(buffer, value as number, at);
  if (typeof value === "string") buffer.write(value, at, "utf8");
  else buffer.set(value as Uint8Array, at);
  return at + length;
}

/** Numbers are whole and below 2**53 in size: no BigInt is made of each. */
function writeInt8(buffer: Buffer, value: number, at: number): number {
  const high = Math.floor(value / 2 ** 32);
  buffer.writeInt32BE(high, at);
  return buffer.writeUInt32BE(value - high * 2 ** 32, at + 4);
}
