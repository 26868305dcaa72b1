/**
 * One of several platforms that share a database by shards (SVC_SHARE_SHARDS). Each owns the jobs, requests, workers and scaling of its
 * endpoints; a call is asked of whoever has its endpoint. One of them has the database's row besides, and with it what there is once: the
 * management API, keys, and the sweeps of what is stored.
 *
 *   starts ──▶ reads who is there ──▶ takes shards that nobody has, gets its part of the others' ──▶ answers
 *   one ends, or is silent ──▶ the others take its shards, each its part; one takes the row
 *   told to stop ──▶ shards are given away, of each the workers finish first ──▶ the row ──▶ its callers are answered by the others ──▶ ends
 */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { KeyChecker } from "../domain/api-key.ts";
import {
  AHEAD_ENDPOINTS_MAX,
  REPLICA_LEAVE_MS,
  REPLICA_REDIAL_MAX_MS,
  SHARDS_GIVEN_MAX_MS,
  STOP_POLL_MS,
} from "../domain/limits.ts";
import type { AheadWish } from "../domain/worker.ts";
import type { Gateway } from "../gateway/server.ts";
import type { AskedOf } from "../gateway-link/asked.ts";
import type { Backing } from "../gateway-link/backing.ts";
import type { GatewayDoor } from "../gateway-link/gateway-door.ts";
import type { ReplicaProtocol } from "../gateway-link/replica-door.ts";
import { Route } from "../gateway-link/route.ts";
import { beginAmong } from "../postgres/replicas.ts";
import type { Store } from "../store/store.ts";
import { type OpenTraces, openTraces } from "../telemetry/tracing.ts";
import { routedFront } from "./front.ts";
import { shareReplicaCertificate } from "./identity.ts";
import { MachineLinks, type MachineNeeds } from "./machine-links.ts";
import { sharedBacking } from "./own-backing.ts";
import { OwnShards } from "./own-shards.ts";
import { platformDoor, sendCallersAway, whyAlone } from "./platform-door.ts";
import { dialPlatform } from "./platform-link.ts";
import { PlatformLinks } from "./platform-links.ts";
import { listenAlone } from "./port.ts";
import type { ReplicaNeeds, Way } from "./replica.ts";
import { ReplicaPlace } from "./replica-place.ts";

export class Sharing {
  readonly id = randomUUID();
  readonly shards: OwnShards;
  readonly route = new Route();
  readonly #needs: ReplicaNeeds;
  readonly #stop = new AbortController();
  readonly #another = Promise.withResolvers<void>();
  readonly #whenFirst: (() => void)[] = [];
  #way!: Way;
  #gateway!: Gateway;
  #place!: ReplicaPlace;
  #links: PlatformLinks | undefined;
  #machines: MachineLinks | undefined;
  #gateways: GatewayDoor | undefined;
  #released: GatewayDoor | undefined;
  #backing: Backing | undefined;
  #spans: OpenTraces | undefined;
  #isFirst = false;
  #leftAt: number | undefined;
  /** Since when nobody that has the row can be asked. */
  #aloneSince = Number.NEGATIVE_INFINITY;

  constructor(needs: ReplicaNeeds) {
    this.#needs = needs;
    this.shards = new OwnShards(this.id, (work) => needs.own("looking after endpoints that moved", work));
    this.shards.moved = () => this.route.look();
    this.shards.changed = () => this.#links?.tellAll("look");
    this.shards.makeReady = (...asked) => this.#makeReady(...asked);
  }

  get gateway(): Gateway {
    return this.#gateway;
  }

  /** Those that it asks whoever has the row. */
  readonly keys: KeyChecker = { check: (secret) => this.route.ask(({ keys }) => keys.check(secret)) };

  /** Of its data directory. */
  get home(): string {
    return this.#way.home;
  }

  /** Whether it has what there is once. */
  readonly isFirst = (): boolean => this.#isFirst;

  /** Of the one with the row: whether what it knows of keys is what is stored. */
  get isSure(): boolean {
    return this.#way.owner.isSure || this.#place?.replicas?.isAlone === true;
  }

  /** Machines join: those hang on the first. */
  lends(needs: MachineNeeds): MachineLinks {
    const linkOf = (id: string) => this.#links?.link(id);
    this.#machines = new MachineLinks(needs, {
      ...{ me: this.id, own: this.#needs.own, isFirst: this.isFirst, linkOf },
      first: () => linkOf(this.#links?.first ?? ""),
      ownerOf: (endpointId) => this.shards.ownerOf(endpointId),
      all: () => this.#links?.all() ?? [],
    });
    this.whenFirst(() => needs.machines.becomeFirst());
    return this.#machines;
  }

  /** Now, or when it has. */
  whenFirst(act: () => void): void {
    if (this.#isFirst) act();
    else this.#whenFirst.push(act);
  }

  /** Resolves when it is known whether another has the database's row; this one takes that when it can. */
  async take(way: Way): Promise<void> {
    const { config, log, own, url, statusPath } = this.#needs;
    this.#way = way;
    const acceptFailed = (error: Error) => log.error("a connection could not be accepted", { error });
    const front = { config, log, own, acceptFailed, secretKeys: way.secretKeys };
    this.#gateway = routedFront(front, this.route, () => this.#notReady());
    this.#place = new ReplicaPlace({
      ...{ id: this.id, config, url, statusPath, shares: true, ...way },
      status: async (replicas) => {
        const counts = this.shards.counts();
        const rows = (await replicas.list()).map((row) => ({ ...row, shards: counts.get(row.id) ?? 0 }));
        return { id: this.id, held: this.route.held, replicas: rows };
      },
      accept: (socket, protocol) => this.#accept(socket, protocol),
    });
    await beginAmong(way.postgres, { home: way.home, shares: true });
    const { signal } = this.#stop;
    const taken = way.owner.take(signal).then(
      () => this.#becameFirst(),
      (error) => {
        if (!signal.aborted) throw error;
      },
    );
    own("taking the database's row", taken);
    await Promise.race([taken, this.#another.promise]);
  }

  other(place: string): void {
    this.#needs.log.info(
      `Another platform uses ${this.#way.postgres.name}: ${place}. This one takes its part of the endpoints.`,
    );
    this.#another.resolve();
  }

  listen(): Promise<{ readonly port: number }> {
    const { config, taken } = this.#needs;
    return listenAlone(this.#gateway, config.host, config.port).then((listening) => {
      taken(listening.port);
      return listening;
    });
  }

  /** `caughtUp`: resolves when all that was committed to the store by then is known here. */
  async serve(
    alone: Backing,
    store: Store,
    {
      caughtUp,
      makeReady,
    }: { readonly caughtUp: () => Promise<void>; readonly makeReady: NonNullable<AskedOf["makeReady"]> },
  ): Promise<void> {
    const { config, log, own } = this.#needs;
    const { postgres, seal, owner } = this.#way;
    const { shards, route } = this;
    const backing = sharedBacking(alone, shards.isMine);
    const gateways = platformDoor(backing, {
      ...{ config, own, store, gateway: this.#gateway, workersAt: this.#machines?.dial[0] },
      looks() {
        shards.keeper?.nudge();
        route.look();
      },
      // What comes here while it leaves goes on at once.
      makeReady: async (wishes) => (this.#leftAt === undefined ? makeReady(wishes) : 0),
      // Of one without the row nobody asks for keys.
      isSure: () => !this.#isFirst || this.isSure,
      gone: (_pid, reason) => log.info("the link of another platform has ended", { reason }),
    });
    // Who has the row makes the changes, and waits until the others know them: they do not wait for each other.
    store.onChange(({ table, id }) =>
      table === "hosts" || !this.#isFirst ? undefined : gateways.changed({ table, id }),
    );
    this.#backing = backing;
    this.#gateways = gateways;
    if (config.traces)
      this.#spans = await openTraces({ clock: Date.now, told: (line, facts) => log.info(line, facts) });
    const spans = this.#spans;
    const certificate = await shareReplicaCertificate(postgres, seal);
    await this.#place.open(certificate);
    const links: PlatformLinks = new PlatformLinks({
      ...{ me: this.id, log, own },
      list: () => this.#place.replicas.list(),
      async dial(row, told) {
        const leaves = () => {
          told.leaves();
          // Nobody has the row any more.
          if (row.id === links.first) owner.nudge();
        };
        const hasNothing = () => !shards.counts().has(row.id);
        const link = await dialPlatform(row, certificate, { spans, log }, { ...told, leaves, hasNothing });
        link.link.onChange(({ table }) => (table === "workers" ? undefined : caughtUp()));
        return link;
      },
      changed: () => this.#chooseFirst(),
      ended: (id) => {
        shards.keeper?.tell({ type: "gone", now: performance.now(), replica: id });
        if (id === links.first) owner.gone(id);
      },
    });
    this.#links = links;
    route.share({
      own: backing,
      ownerOf: (endpointId) => {
        const id = shards.ownerOf(endpointId);
        return shards.isMe(id) ? backing : links.backing(id);
      },
      *all() {
        yield backing;
        yield* links.backings();
      },
    });
    links.start();
    this.#chooseFirst();
    await this.#place.replicas.tell();
  }

  /** One that says that it cannot, or not in time, gets them all the same; one without a link does not. */
  async #makeReady(replica: string, wishes: readonly AheadWish[], maxMs: number): Promise<boolean> {
    const link = this.#links?.link(replica);
    if (link !== undefined) {
      const workers = wishes.slice(0, AHEAD_ENDPOINTS_MAX);
      const endpointIds = workers.map(({ endpointId }) => endpointId);
      const asked = link.link.ask("makeReady", { endpointIds, workers }).catch(() => {});
      await Promise.race([asked, pause(maxMs, undefined, { ref: false })]);
      if (this.#links?.link(replica) === link) return true;
    }
    // By then it is known whether it has ended, or its link did only.
    await pause(REPLICA_REDIAL_MAX_MS, undefined, { ref: false });
    return false;
  }

  /** Whether there is another that could have what this one has. */
  get hasOthers(): boolean {
    return (this.#links?.count ?? 0) > 0;
  }

  /** Another has the row, which this one did not give. Resolves whether another platform can answer its callers. */
  async lostRow(): Promise<boolean> {
    this.#isFirst = false;
    this.#links?.nudge();
    this.#chooseFirst();
    const until = performance.now() + REPLICA_LEAVE_MS;
    // Their links were given up while it stood still.
    while (this.route.backing === undefined && performance.now() < until) await pause(STOP_POLL_MS);
    return this.route.backing !== undefined;
  }

  /** From now on callers should go elsewhere; who comes all the same is answered. */
  leave(): void {
    this.#leftAt = performance.now();
    // It is not to have the row any more, unless it has it.
    this.#stop.abort();
    sendCallersAway(this.#gateway);
  }

  /** All endpoints go to the others, each when it can. */
  giveShards(hurry: AbortSignal): Promise<void> {
    return this.shards.drain(AbortSignal.any([hurry, AbortSignal.timeout(SHARDS_GIVEN_MAX_MS)]));
  }

  /** So does what there is once; `callersLeave` resolves when its callers are answered, by the others. */
  async handOver(callersLeave: () => Promise<void>, hurry: AbortSignal): Promise<void> {
    await this.#leaveRow();
    const restMs = (this.#leftAt ?? 0) + REPLICA_LEAVE_MS - performance.now();
    await pause(Math.max(0, restMs), undefined, { signal: hurry }).catch(() => {});
    await this.#place.quiet(this.#released, hurry);
    await callersLeave();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    // What another passed on before it knew, and came late.
    await this.#gateway.close(0);
    this.route.close();
    this.#machines?.close();
    await this.#links?.close();
    await (this.#gateways ?? this.#released)?.close();
    await this.#place?.close();
    await this.#spans?.close();
  }

  async #leaveRow(): Promise<void> {
    this.#stop.abort();
    await this.#way.owner.close();
    this.#isFirst = false;
    this.#released = this.#gateways;
    this.#gateways = undefined;
    // They look for the next one that has the row.
    this.#released?.endAll(0);
    this.#links?.nudge();
    this.#chooseFirst();
  }

  #becameFirst(): void {
    this.#isFirst = true;
    this.#needs.log.info("this platform has the database: management, keys and sweeps are its own");
    this.#chooseFirst();
    for (const act of this.#whenFirst.splice(0)) act();
  }

  #chooseFirst(): void {
    const { first = "" } = this.#links ?? {};
    const { backing } = this.route;
    this.route.set(this.#isFirst ? this.#backing : this.#links?.backing(first));
    if (backing !== undefined && this.route.backing === undefined) this.#aloneSince = performance.now();
    this.route.look();
    this.#machines?.look();
  }

  #accept(socket: Socket, protocol: ReplicaProtocol): void {
    this.#place.replicas?.met();
    // Who asks it as the first that it was just now is not refused: the next one answers.
    if (protocol === "calls" && (this.#gateways ?? this.#released)) this.#gateway.acceptPrivately(socket);
    else if (protocol === "calls" || this.#gateways === undefined) socket.destroy();
    else if (protocol === "link") this.#gateways.accept(socket);
    else if (this.#machines === undefined) socket.destroy();
    else this.#machines.accept(socket, protocol);
  }

  /** As one that waits says it: while the row changes hands none of them is unready. */
  #notReady(): readonly string[] | undefined {
    if (this.#leftAt !== undefined) return ["The platform stops."];
    if (this.route.backing !== undefined) return undefined;
    return whyAlone(this.#aloneSince);
  }
}

interface Background {
  start(): unknown;
  stop(): Promise<unknown>;
}

/** What there is once: it begins when this platform is the one that has it. */
export function ofFirst(sharing: Sharing | undefined, one: Background) {
  const start = () => (sharing === undefined ? one.start() : sharing.whenFirst(() => one.start()));
  return { start, stop: () => one.stop() };
}
