/**
 * Links that hosts open ahead: a spare dials before it is known which worker it will be, so that a cold start has no TLS
 * handshake in it. A ticket of its host lets such a link wait beyond the time that greeters have; the worker says HELLO on it
 * with its own token, as on any other.
 *
 * User code may know the ticket. It is good for nothing but waiting, for HOST_AHEAD_MAX links of its host, and only as
 * long as the agent's own link is open.
 */
import { randomBytes } from "node:crypto";
import { hashSecret } from "../domain/api-key.ts";
import { HOST_AHEAD_MAX } from "../domain/limits.ts";
import type { Connection } from "./connection.ts";

const TICKET_BYTES = 24;

export class LinksAhead {
  /** By the hash of the ticket. */
  readonly #waiting = new Map<string, Set<Connection>>();

  /** A ticket that is good until `agent` closes; what waits with it then is closed too. */
  ticketFor(agent: Connection): string {
    const ticket = randomBytes(TICKET_BYTES).toString("base64url");
    const hash = hashSecret(ticket);
    const waiting = new Set<Connection>();
    this.#waiting.set(hash, waiting);
    const { onClose } = agent;
    agent.onClose = () => {
      onClose();
      this.#waiting.delete(hash);
      for (const connection of waiting) connection.destroy();
    };
    return ticket;
  }

  /** Whether it may wait; it does until it says something, or closes. */
  admits(connection: Connection, ticket: string): boolean {
    const waiting = this.#waiting.get(hashSecret(ticket));
    if (waiting === undefined || waiting.size >= HOST_AHEAD_MAX) return false;
    waiting.add(connection);
    const { onFrame, onClose } = connection;
    connection.onFrame = (frame) => {
      waiting.delete(connection);
      onFrame(frame);
    };
    connection.onClose = () => {
      waiting.delete(connection);
      onClose();
    };
    return true;
  }
}
