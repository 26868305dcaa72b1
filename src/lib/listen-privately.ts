import { chmodSync, rmSync } from "node:fs";
import type { Server } from "node:net";

/** On a socket in the file system that this user alone may open; one that was left there is replaced. */
export async function listenPrivately(server: Server, socketPath: string): Promise<void> {
  rmSync(socketPath, { force: true });
  await new Promise<void>((resolve, reject) => {
    // Later ones are of single connections, as when no file can be opened: whoever dialled hears of it.
    server.on("error", reject);
    server.listen(socketPath, resolve);
  });
  chmodSync(socketPath, 0o600);
}
