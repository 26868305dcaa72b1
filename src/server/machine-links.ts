/**
 * Where platforms share endpoints and machines join: the link to the one that the machines hang on, those of the platforms that borrow from
 * this one, and the ways of workers and hosts that dialled another platform than theirs.
 *
 *   worker ──TLS──▶ any platform ──its endpoint is another's──▶ that one's door for platforms, the bytes as they are
 */
import type { Socket } from "node:net";
import { z } from "zod";
import { LINK_GREETING_MAX_MS, REPLICA_REDIAL_MIN_MS } from "../domain/limits.ts";
import { FRAME } from "../domain/worker-protocol.ts";
import type { SharedMachines } from "../drivers/hosts/shared-machines.ts";
import { readHead } from "../lib/frames.ts";
import type { Own } from "../lib/own.ts";
import { Connection } from "../worker-link/connection.ts";
import type { PlatformLink } from "./platform-link.ts";

export interface MachineNeeds {
  readonly machines: SharedMachines;
  /** `host:port` for workers of other machines, once it listens. */
  readonly workersAt: () => string | undefined;
  /** Takes a worker, or a host, that another platform has let through. */
  readonly accept: (socket: Socket) => void;
}

interface Others {
  readonly me: string;
  readonly own: Own;
  readonly isFirst: () => boolean;
  /** The one with the row; undefined: there is none, or no link to it. */
  readonly first: () => PlatformLink | undefined;
  readonly linkOf: (id: string) => PlatformLink | undefined;
  readonly ownerOf: (endpointId: string) => string;
  readonly all: () => Iterable<PlatformLink>;
}

const hello = z.object({ id: z.string().max(100) });

export class MachineLinks {
  readonly #needs: MachineNeeds;
  readonly #others: Others;
  /** The link of platforms that the one for machines goes with. */
  #with: PlatformLink | undefined;
  #isClosed = false;
  #again: NodeJS.Timeout | undefined;

  constructor(needs: MachineNeeds, others: Others) {
    this.#needs = needs;
    this.#others = others;
  }

  /** Another may be the first now, or be linked again. */
  look(): void {
    const { isFirst, first, own } = this.#others;
    const link = isFirst() ? undefined : first();
    if (link === undefined || link === this.#with || this.#isClosed) return;
    this.#with = link;
    own("a link to the platform that has the machines", this.#dial(link));
  }

  /** Where workers may dial, this platform first. */
  get dial(): readonly string[] {
    const all = [this.#needs.workersAt(), ...[...this.#others.all()].map(({ workersAt }) => workersAt)];
    return all.filter((at) => at !== undefined);
  }

  /** As in link-hooks.ts. */
  readonly elsewhere = (endpointId: string | undefined): Promise<Socket> | undefined => {
    const { me, isFirst, first, linkOf, ownerOf } = this.#others;
    if (endpointId === undefined && isFirst()) return undefined;
    const owner = endpointId === undefined ? undefined : ownerOf(endpointId);
    if (owner === me && this.#needs.machines.has(endpointId!)) return undefined;
    const link = owner === undefined ? first() : linkOf(owner);
    return link?.dial("workers") ?? Promise.reject(new Error("nobody is known to have it"));
  };

  /** One that has proved itself as a platform on the database. */
  accept(socket: Socket, protocol: "machines" | "workers"): void {
    if (this.#isClosed) socket.destroy();
    else if (protocol === "workers") this.#needs.accept(socket);
    else this.#greet(new Connection(socket));
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#again);
  }

  async #dial(link: PlatformLink): Promise<void> {
    const { machines } = this.#needs;
    const gone = () => {
      if (this.#with === link) this.#with = undefined;
      clearTimeout(this.#again);
      this.#again = setTimeout(() => this.look(), REPLICA_REDIAL_MIN_MS).unref();
    };
    try {
      const connection = new Connection(await link.dial("machines"));
      if (this.#isClosed || this.#with !== link) return connection.destroy();
      connection.trust();
      connection.send(FRAME.HELLO, 0, { id: this.#others.me });
      connection.onClose = gone;
      machines.attach(connection);
    } catch {
      gone();
    }
  }

  #greet(connection: Connection): void {
    const late = setTimeout(() => connection.destroy(), LINK_GREETING_MAX_MS);
    connection.onClose = () => clearTimeout(late);
    connection.onFrame = (frame) => {
      clearTimeout(late);
      if (frame.type !== FRAME.HELLO || !this.#others.isFirst()) return connection.destroy();
      const { id } = readHead(frame, (head) => hello.parse(head));
      connection.trust();
      this.#needs.machines.lend(id, connection);
    };
  }
}
