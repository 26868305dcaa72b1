/** A gateway's way to its owner. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { LINK_GREETING_MAX_MS } from "../domain/limits.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import { Connection } from "../worker-link/connection.ts";
import { OwnerLink } from "./owner-link.ts";
import { LINK_FRAME, LINK_VERSIONS, sendValue } from "./protocol.ts";
import type { SharedSettings } from "./settings.ts";

const welcomeHead = z.object({
  link: z.int(),
  settings: z.custom<SharedSettings>((value) => typeof value === "object" && value !== null),
});
const refusedHead = z.object({ reason: z.string().max(8_000) });

/** Resolves once the owner has let it in. Throws PLATFORM_UNREACHABLE. */
export async function dialOwner(
  socketPath: string,
  secret: string,
): Promise<{ readonly link: OwnerLink; readonly settings: SharedSettings }> {
  const socket = connect(socketPath);
  await once(socket, "connect");
  return greetOwner(socket, secret);
}

/** The same on a connection that is there. `secret`: undefined where both have proved themselves already. */
export async function greetOwner(
  socket: Socket,
  secret: string | undefined,
): Promise<{ readonly link: OwnerLink; readonly settings: SharedSettings }> {
  const connection = new Connection(socket);
  const late = setTimeout(() => connection.destroy(), LINK_GREETING_MAX_MS);
  const early: Frame[] = [];
  try {
    const answer = await new Promise<Frame>((resolve, reject) => {
      connection.onClose = () => reject(unreachable("closed the link before it let this gateway in"));
      connection.onError = reject;
      connection.onFrame = (frame) => {
        connection.onFrame = (later) => early.push(later);
        resolve(frame);
      };
      const { min, max } = LINK_VERSIONS;
      sendValue(connection, LINK_FRAME.HELLO, 0, { link: [min, max], secret, pid: process.pid });
    });
    if (answer.type === LINK_FRAME.REFUSED) {
      throw unreachable(`does not let this gateway in: ${readHead(answer, (head) => refusedHead.parse(head)).reason}`);
    }
    if (answer.type !== LINK_FRAME.WELCOME) throw unreachable("speaks another protocol");
    const { settings } = readHead(answer, (head) => welcomeHead.parse(head));
    return { link: new OwnerLink(connection, early), settings };
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    clearTimeout(late);
  }
}

function unreachable(what: string): SvcError {
  return new SvcError("PLATFORM_UNREACHABLE", `The owner ${what}.`);
}
