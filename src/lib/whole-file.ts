/** Large files in one go: what node has for it takes a turn of its threads for each 512 KiB. */
import { open } from "node:fs/promises";

/** A new file that its owner alone may read. `sync`: it is on the disk, not only in the kernel, when it resolves. */
export async function writeWhole(file: string, bytes: Uint8Array, sync: boolean): Promise<void> {
  const handle = await open(file, "wx", 0o600);
  try {
    let written = 0;
    while (written < bytes.byteLength) written += (await handle.write(bytes, written)).bytesWritten;
    if (sync) await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Its bytes are the only ones of their buffer. */
export async function readWhole(file: string): Promise<Buffer> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const bytes = Buffer.allocUnsafeSlow(size);
    let filled = 0;
    while (filled < size) {
      const { bytesRead } = await handle.read(bytes, filled, size - filled, filled);
      if (bytesRead === 0) return bytes.subarray(0, filled); // It was cut meanwhile.
      filled += bytesRead;
    }
    return bytes;
  } finally {
    await handle.close();
  }
}
