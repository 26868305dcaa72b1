import { createHash } from "node:crypto";
import { chmodSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { SOCKET_PATH_MAX_BYTES } from "../domain/limits.ts";

/** In a folder of its own, the only one that workers see beside their code: in the data directory, or where that path is too long for the kernel, in a folder of ours under the temp folder. */
export function privateSocket(dataDir: string, folder = "run"): string {
  const near = path.join(dataDir, folder, "platform.sock");
  if (Buffer.byteLength(near) <= SOCKET_PATH_MAX_BYTES) {
    mkdirSync(path.dirname(near), { recursive: true, mode: 0o700 });
    return near;
  }
  // Not userInfo(): an id need not have an account.
  const dir = path.join(
    tmpdir(),
    `svc-${process.getuid?.() ?? "user"}-${createHash("sha256")
      .update(`${folder === "run" ? "" : folder}${dataDir}`)
      .digest("hex")
      .slice(0, 16)}`,
  );
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  chmodSync(dir, 0o700); // Throws when another user made it first.
  return path.join(dir, "platform.sock");
}
