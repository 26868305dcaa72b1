import { once } from "node:events";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";

/** Asks that often, and is gone a moment later: each time another one, so that it is at each step of what answers. */
export async function breakOff(url: string, head: string, times: number): Promise<void> {
  const { hostname, port } = new URL(url);
  for (let n = 0; n < times; n++) {
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(head);
    for (let turn = 0; turn < n % 20; turn++) await setImmediate();
    socket.resetAndDestroy();
    await once(socket, "close");
  }
}
