/**
 * One of several platforms on a database. One has it, and does all that a platform does; the others take calls for it:
 *
 *   waits ──▶ a link to the owner: what the gateway is asked goes there ──▶ the owner has ended, or is silent ──▶ owns
 *               └── none: calls are held                                          calls are held, then answered here
 *
 * A call that was on its way when its owner ended is sent to the next, a job under the same id. One that is told to stop while another
 * waits gives the database to that, and has its own calls answered there before it ends.
 */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import { REPLICA_LEAVE_MS, REPLICA_REDIAL_MAX_MS, REPLICA_REDIAL_MIN_MS } from "../domain/limits.ts";
import { LauncherProcess } from "../drivers/launcher-process.ts";
import type { Gateway } from "../gateway/server.ts";
import type { Backing } from "../gateway-link/backing.ts";
import type { GatewayDoor } from "../gateway-link/gateway-door.ts";
import type { ReplicaProtocol } from "../gateway-link/replica-door.ts";
import { Route } from "../gateway-link/route.ts";
import type { Log } from "../lib/log.ts";
import type { Own } from "../lib/own.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { Certificate } from "../lib/self-signed-certificate.ts";
import type { PlatformOwner } from "../postgres/owner.ts";
import type { Postgres } from "../postgres/postgres.ts";
import { beginAmong, type ReplicaRow } from "../postgres/replicas.ts";
import { Bucket } from "../s3/bucket.ts";
import type { Store } from "../store/store.ts";
import { type OpenTraces, openTraces } from "../telemetry/tracing.ts";
import type { Config } from "./config.ts";
import { routedFront } from "./front.ts";
import { readReplicaCertificate, shareReplicaCertificate } from "./identity.ts";
import { platformDoor, sendCallersAway, whyAlone } from "./platform-door.ts";
import { dialPlatform } from "./platform-link.ts";
import { listenAlone, sharedPort } from "./port.ts";
import { isRefused } from "./replica-address.ts";
import { ReplicaPlace } from "./replica-place.ts";
import type { SecretKeys } from "./secret-keys.ts";

export interface ReplicaNeeds {
  readonly config: Config;
  readonly log: Log;
  readonly own: Own;
  readonly statusPath: string;
  /** Where callers reach this platform, once it listens. */
  readonly url: () => string;
  /** The port that it listens on. */
  readonly taken: (port: number) => void;
  /** Ends gateways that an earlier platform left on it. */
  readonly portFree: () => Promise<void>;
}

/** What is open when it has to wait. */
export interface Way {
  readonly postgres: Postgres;
  readonly seal: SealedText;
  readonly secretKeys: SecretKeys;
  readonly owner: PlatformOwner;
  readonly home: string;
  readonly place: string;
}

export class Replica {
  readonly id = randomUUID();
  readonly #needs: ReplicaNeeds;
  readonly #route = new Route();
  readonly #waiting = Promise.withResolvers<void>();
  /** It wants the database no more. */
  readonly #stop = new AbortController();
  /** Whoever stops it waits no longer. */
  readonly #hurry = new AbortController();
  /** No link to another is wanted any more. */
  #over = new AbortController();
  #way!: Way;
  #gateway!: Gateway;
  #listening: Promise<{ readonly port: number }> | undefined;
  #place!: ReplicaPlace;
  #spans: OpenTraces | undefined;
  #certificate: Certificate | undefined;
  /** Of an owner: where gateways of others ask. */
  #gateways: GatewayDoor | undefined;
  #released: GatewayDoor | undefined;
  #leftAt: number | undefined;
  /** Since when there is nobody to ask. */
  #aloneSince = Number.NEGATIVE_INFINITY;
  #follows: Promise<void> = Promise.resolve();
  #ends: Promise<void> | undefined;

  constructor(needs: ReplicaNeeds) {
    this.#needs = needs;
    this.#waiting.promise.catch(() => {});
  }

  /** Resolves when another has the database, and this one takes calls for it. */
  get waits(): Promise<void> {
    return this.#waiting.promise;
  }

  /** It stays the same, whoever has the database. */
  get gateway(): Gateway {
    return this.#gateway;
  }

  /** Resolves when the database is this platform's, which has done nothing else yet. */
  async take(way: Way): Promise<void> {
    const { config, log, own, url, statusPath } = this.#needs;
    this.#way = way;
    this.#place = new ReplicaPlace({
      ...{ id: this.id, config, url, statusPath, shares: false, ...way },
      status: async (replicas) => ({ id: this.id, held: this.#route.held, replicas: await replicas.list() }),
      accept: (socket, protocol) => this.#accept(socket, protocol),
    });
    const acceptFailed = (error: Error) => log.error("a connection could not be accepted", { error });
    const front = { config, log, own, acceptFailed, secretKeys: way.secretKeys };
    this.#gateway = routedFront(front, this.#route, () => this.#notReady());
    try {
      await beginAmong(way.postgres, { home: way.home, shares: false });
      await way.owner.take(this.#stop.signal);
    } finally {
      // Its own stop has its calls answered first.
      await this.#ends;
      this.#over.abort();
      await this.#follows;
      await this.#spans?.close();
    }
  }

  /** Another has the database: from now on this one takes calls for it. */
  other(place: string): void {
    const { config, log, own } = this.#needs;
    const waits = `Another platform uses ${this.#way.postgres.name}: ${place}.`;
    const alone = config.gateways > 0 ? " Its gateway processes start then: until then it takes them alone." : "";
    log.info(`${waits} This one takes calls for it, and its place when that ends.${alone}`);
    // It was killed here: the workers that it left are counted out by whoever has the database since.
    LauncherProcess.earlier(config.dataDir)?.kill();
    this.#follows = this.#begin().catch((error) => {
      this.#waiting.reject(error);
      this.#stop.abort(error);
    });
    own("waiting for the database", this.#follows);
  }

  /** Listens for callers. Throws PORT_IN_USE. */
  listen(): Promise<{ readonly port: number }> {
    this.#listening ??= this.#listen();
    return this.#listening;
  }

  /** Where it listens while it waits. */
  async port(): Promise<number | undefined> {
    return (await this.#listening)?.port;
  }

  async #listen(): Promise<{ readonly port: number }> {
    const { config, taken, portFree } = this.#needs;
    const isShared = config.gateways > 0;
    if (isShared) await portFree();
    const listening = isShared
      ? await this.#listenShared(config)
      : await listenAlone(this.#gateway, config.host, config.port);
    taken(listening.port);
    return listening;
  }

  async #listenShared({ host, port: wanted }: Config): Promise<{ readonly port: number }> {
    const { port, letGo } = await sharedPort(host, wanted);
    return this.#gateway.listen(host, port, true).finally(letGo);
  }

  /** Questions are answered here from now on, also those of others' gateways. */
  async serve(backing: Backing, store: Store): Promise<void> {
    const { config, log, own } = this.#needs;
    const { postgres, seal } = this.#way;
    const gateways = platformDoor(backing, {
      ...{ config, own, store, gateway: this.#gateway },
      isSure: () => this.isSure,
      gone: (_pid, reason) => log.info("a platform that takes calls has left", { reason }),
    });
    store.onChange(({ table, id }) => (table === "hosts" ? undefined : gateways.changed({ table, id })));
    this.#route.set(backing);
    this.#certificate ??= await shareReplicaCertificate(postgres, seal);
    this.#gateways = gateways;
    await this.#place.open(this.#certificate);
    await this.#place.replicas.tell();
  }

  /** A platform that waits lets its callers go elsewhere, answers what it was asked, and then waits no more. */
  stopWaiting(graceMs: number): void {
    if (graceMs === 0) {
      this.#hurry.abort();
      this.#needs.own("closing connections", this.#gateway.close(0));
    }
    this.#ends ??= this.#endWaiting(graceMs);
    this.#stop.abort();
  }

  async #endWaiting(graceMs: number): Promise<void> {
    this.leave();
    await this.#callersGo(this.#hurry.signal);
    await this.#gateway.close(graceMs);
  }

  /** Whoever asks whether this platform is ready has had the time to. */
  async #callersGo(hurry: AbortSignal): Promise<void> {
    const restMs = this.#leftAt! + REPLICA_LEAVE_MS - performance.now();
    await pause(Math.max(0, restMs), undefined, { signal: hurry }).catch(() => {});
  }

  /** Of an owner: whether what it knows of keys is what is stored. While no other is there it is, also when the database is away. */
  get isSure(): boolean {
    return this.#way.owner.isSure || this.#place?.replicas?.isAlone === true;
  }

  /** Whether another takes calls for this one, and could have its place. */
  get hasOthers(): boolean {
    return (this.#gateways?.count ?? 0) > 0;
  }

  /** From now on callers should go elsewhere; who comes all the same is answered. */
  leave(): void {
    this.#leftAt = performance.now();
    sendCallersAway(this.#gateway);
  }

  /** Nothing is asked here any more: who does, from here or elsewhere, is held for the next that has the database. */
  release(): void {
    this.#released = this.#gateways;
    this.#gateways = undefined;
    this.#nobody();
    this.#released?.endAll(0);
  }

  /** The database is another's to take. Calls that are held here go on there; `callersLeave` resolves when they are answered. */
  async handOver(callersLeave: () => Promise<void>, hurry: AbortSignal): Promise<void> {
    await this.#way.owner.close();
    this.#over = new AbortController();
    this.#follows = this.#follow();
    await this.#callersGo(hurry);
    await this.#place?.quiet(this.#released, hurry);
    await callersLeave();
    this.#over.abort();
    await this.#follows;
  }

  /** Links of others end. */
  async close(): Promise<void> {
    // What another passed on before it knew, and came late.
    await this.#gateway.close(0);
    this.#route.close();
    await (this.#gateways ?? this.#released)?.close();
    await this.#place?.close();
  }

  async #begin(): Promise<void> {
    const { config, log } = this.#needs;
    if (config.traces) {
      this.#spans = await openTraces({ clock: Date.now, told: (line, facts) => log.info(line, facts) });
    }
    await this.listen();
    await this.#place.open(this.#certificate);
    if (config.s3 !== undefined) await Bucket.load();
    this.#waiting.resolve();
    await this.#follow();
  }

  /** Nobody but the owner has anything to say. */
  #accept(socket: Socket, protocol: ReplicaProtocol): void {
    this.#place?.replicas?.met();
    // Who asks it as the owner that it was just now is not refused: the next one answers.
    if (protocol === "calls" && (this.#gateways ?? this.#released)) this.#gateway.acceptPrivately(socket);
    else if (protocol === "link" && this.#gateways) this.#gateways.accept(socket);
    else socket.destroy();
  }

  /** Keeps a link to whoever has the database. */
  async #follow(): Promise<void> {
    const { signal } = this.#over;
    const { owner, postgres, seal } = this.#way;
    let linked = "";
    let told: string | undefined = "";
    for (let pauseMs = REPLICA_REDIAL_MIN_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, REPLICA_REDIAL_MAX_MS)) {
      let row: ReplicaRow | undefined;
      try {
        row = await this.#place.replicas.owner();
        if (this.#certificate === undefined) {
          this.#certificate = await readReplicaCertificate(postgres, seal);
          await this.#place.open(this.#certificate);
        }
        if (row !== undefined && this.#certificate !== undefined && row.id !== this.id) {
          const reason = await this.#useLink(row, this.#certificate, () => {
            linked = row!.id;
            told = "";
            pauseMs = REPLICA_REDIAL_MIN_MS / 2;
          });
          if (!signal.aborted) this.#needs.log.info("the link to the platform that has the database ended", { reason });
          owner.nudge();
          continue;
        }
      } catch (error) {
        // It had a door, which nobody listens at any more: its process has ended.
        if (row !== undefined && row.id === linked && isRefused(error)) owner.gone(linked);
        // It may be giving the database away.
        owner.nudge();
        // Once for each owner: why it cannot be reached is now this, now that.
        if (row?.id !== told && !signal.aborted)
          this.#needs.log.error("calls are held: the platform that has the database cannot be reached", { error });
        told = row?.id;
        if (error instanceof SvcError && error.code === "DATA_DIRECTORY") throw error;
      }
      await pause(pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  /** Resolves why it ended, when it has. Throws PLATFORM_UNREACHABLE. */
  async #useLink(row: ReplicaRow, certificate: Certificate, opened: () => void): Promise<string> {
    const { log } = this.#needs;
    const { signal } = this.#over;
    const { link, backing, closed } = await dialPlatform(
      row,
      certificate,
      { log, spans: this.#spans },
      {
        gone: (gone) => {
          if (this.#route.backing === gone) this.#nobody();
        },
        leaves() {},
      },
    );
    const end = () => link.destroy();
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
    opened();
    this.#route.set(backing);
    log.info("takes calls for the platform that has the database", { place: row.place, address: row.address });
    const reason = await closed;
    signal.removeEventListener("abort", end);
    return reason;
  }

  #nobody(): void {
    this.#aloneSince = performance.now();
    this.#route.set(undefined);
  }

  #notReady(): readonly string[] | undefined {
    if (this.#ends !== undefined || this.#leftAt !== undefined) return ["The platform stops."];
    if (this.#route.backing !== undefined) return undefined;
    return whyAlone(this.#aloneSince);
  }
}
