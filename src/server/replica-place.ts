/** Where other platforms on the database, and people, find this one: its row, its door, and its status. */
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { REPLICA_SILENT_MS } from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import type { GatewayDoor } from "../gateway-link/gateway-door.ts";
import { LINK_VERSIONS } from "../gateway-link/protocol.ts";
import { ReplicaDoor, type ReplicaProtocol } from "../gateway-link/replica-door.ts";
import { hostPort } from "../lib/host-port.ts";
import type { Certificate } from "../lib/self-signed-certificate.ts";
import type { Postgres } from "../postgres/postgres.ts";
import { Replicas } from "../postgres/replicas.ts";
import type { Config } from "./config.ts";
import { StatusSocket } from "./status-socket.ts";

interface PlaceNeeds {
  readonly id: string;
  readonly config: Pick<Config, "replicaListen" | "replicaPublic">;
  readonly postgres: Postgres;
  readonly home: string;
  /** Whether it shares the endpoints with the others. */
  readonly shares: boolean;
  /** Machine and data directory, for people. */
  readonly place: string;
  readonly url: () => string;
  readonly statusPath: string;
  readonly status: (replicas: Replicas) => Promise<object>;
  readonly accept: (socket: Socket, protocol: ReplicaProtocol) => void;
}

export class ReplicaPlace {
  readonly #needs: PlaceNeeds;
  #door: ReplicaDoor | undefined;
  #address = "";
  #replicas: Replicas | undefined;
  #status: StatusSocket | undefined;

  constructor(needs: PlaceNeeds) {
    this.#needs = needs;
  }

  /** Others, as they are in the table; there after `open`. */
  get replicas(): Replicas {
    return this.#replicas!;
  }

  /** Without a certificate nobody can dial in yet: it is opened again with one. */
  async open(certificate: Certificate | undefined): Promise<void> {
    const { id, config, postgres, home, shares, place, url, statusPath, status, accept } = this.#needs;
    if (certificate !== undefined && this.#door === undefined) {
      this.#door = new ReplicaDoor(certificate, accept);
      const { host, port } = config.replicaListen;
      const taken = await this.#door.listen({ host, port });
      const reached = config.replicaPublic ?? { host, port: taken };
      this.#address = hostPort(reached);
    }
    if (this.#replicas !== undefined) return;
    const links = { firstLink: LINK_VERSIONS.min, lastLink: LINK_VERSIONS.max };
    const row = () => ({ id, place, url: url(), address: this.#address, ...links, version: VERSION });
    this.#replicas = new Replicas(postgres, { home, shares, row });
    await this.#replicas.start();
    this.#status = new StatusSocket(() => status(this.#replicas!));
    await this.#status.listen(statusPath);
  }

  /**
   * Resolves when nobody asks it any more: those whose links end have ended them, and who dialled before has been let in. At the latest after
   * REPLICA_SILENT_MS, or when `hurry` ends.
   */
  async quiet(links: GatewayDoor | undefined, hurry: AbortSignal): Promise<void> {
    const left = Promise.resolve(links?.left()).then(() => this.#door?.greeted());
    await Promise.race([left, pause(REPLICA_SILENT_MS, undefined, { signal: hurry, ref: false }).catch(() => {})]);
  }

  async close(): Promise<void> {
    await this.#door?.close();
    await this.#status?.close();
    await this.#replicas?.close();
  }
}
