/** Machines that join: one driver over all of them, who lets them in, and how they are shown. */
import { randomUUID } from "node:crypto";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { WorkerPort } from "../control-plane/context.ts";
import { SvcError } from "../domain/errors.ts";
import { type HostsView, type LiveHost, NO_HOSTS } from "../domain/host.ts";
import type { LayerTicket } from "../domain/host-protocol.ts";
import { signLayer } from "../domain/layer-ticket.ts";
import type { Fleet } from "../domain/placement.ts";
import type { RegistryLogin } from "../domain/registry.ts";
import { VERSION } from "../domain/version.ts";
import type { CapacityLedger } from "../drivers/capacity.ts";
import { HostsDriver } from "../drivers/hosts/hosts-driver.ts";
import type { RemoteHost } from "../drivers/hosts/remote-host.ts";
import { SharedMachines, type SharedMachinesOptions } from "../drivers/hosts/shared-machines.ts";
import type { DriverHooks, LocalDriver, WorkerImage } from "../drivers/worker-driver.ts";
import { hostPort } from "../lib/host-port.ts";
import { libc } from "../lib/libc.ts";
import type { Log } from "../lib/log.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { oneTime } from "../lib/one-time.ts";
import type { HostRepository } from "../store/hosts.ts";
import type { Store } from "../store/store.ts";
import { markVolumes } from "../volumes/volumes-mark.ts";
import type { HostDoor } from "../worker-link/host-greeting.ts";
import type { LinkHooks } from "../worker-link/link-hooks.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { Config } from "./config.ts";
import type { MachineLinks } from "./machine-links.ts";
import type { Pods } from "./pods.ts";
import type { Sharing } from "./sharing.ts";

interface HostsNeeds {
  readonly config: Config;
  readonly volumesDisk: NetworkFolder;
  readonly store: Store;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  /** Of this machine. */
  readonly local: LocalDriver;
  readonly hooks: DriverHooks;
  readonly ticketKey: Uint8Array;
  /** Where a host may get a layer past the platform. */
  readonly layerUrl: ((digest: string) => Promise<string>) | undefined;
  /** Who pulls the image of an endpoint; undefined: anybody. */
  readonly loginOf: (endpointId: string) => Promise<RegistryLogin | undefined>;
  readonly link: () => Pick<WorkerLink, "isHeard" | "connectedElsewhere" | "accept">;
  readonly pool: () => Pick<WorkerPool, "stop" | "waitingForRoom" | "room">;
  /** Undefined: no other platform has endpoints. */
  readonly sharing: Sharing | undefined;
  /** The port for workers of other machines, once it listens. */
  readonly workerPort: () => WorkerPort | undefined;
  /** Pools of Pods; undefined: there are none. */
  readonly pods: Pods | undefined;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly onError: (error: unknown) => void;
  readonly log: Log;
}

interface Hosts {
  readonly driver: LocalDriver;
  /** What workers can be placed on, as it is now. */
  readonly fleet: () => Fleet;
  /** For the worker link: who lets machines in, and the way of those that belong to another platform. */
  readonly doors: Pick<LinkHooks, "hosts" | "elsewhere">;
  readonly view: HostsView;
}

type Drain = SharedMachinesOptions["drain"];

/** Without a port for workers of other machines this machine's driver stands alone. */
export async function makeHosts(needs: HostsNeeds): Promise<Hosts> {
  const { config, store, ledger, local, hooks, loginOf, link, pool, clock, onError, log } = needs;
  if (config.workerListen === undefined) {
    return { driver: local, fleet: () => ledger.capacity, doors: {}, view: NO_HOSTS };
  }
  const drainHere: Drain = (workerIds, why) => {
    for (const id of workerIds) pool().stop(id, why, false).catch(onError);
  };
  const make = (hooks: DriverHooks, drain: Drain) =>
    new HostsDriver({
      ...(needs.pods && { potential: () => needs.pods!.machines }),
      local,
      capacity: ledger.capacity,
      labels: config.hostLabels,
      runsHere: config.localWorkers,
      hooks,
      needed: async (image, host) => ({
        image,
        layers: await ticketsFor(needs, image, host.id),
        login: host.driver === "docker" ? await loginOf(image.endpointId) : undefined,
      }),
      isConnected: (workerId) => link().isHeard(workerId),
      connected: () => link().connectedElsewhere(),
      drain,
    });
  const { shared, links } = shareMachines(needs, make, drainHere) ?? {};
  const driver: HostsDriver = shared?.hosts ?? make(hooks, drainHere);
  const know = async () => {
    const rows = await store.hosts.list();
    const there = new Set(rows.map(({ id }) => id));
    for (const { id } of driver.hosts) if (!there.has(id)) driver.remove(id);
    for (const row of rows) driver.know(row);
  };
  await know();
  // Of what changed meanwhile only the first was told.
  needs.sharing?.whenFirst(() => know().catch(onError));
  store.onChange((change) => {
    if (change.table !== "hosts") return;
    if (change.host === undefined) driver.remove(change.id);
    else driver.know(change.host);
  });
  // Hosts that mount the same folder find it there.
  const disk = needs.volumesDisk;
  const platformId = oneTime(() => disk.run(() => markVolumes(disk.path)));
  await platformId().catch(unlessAway);
  const { platform, arch } = process;
  needs.pods?.over(driver, async () => shared?.othersWant() ?? []);
  const door: HostDoor = {
    ...(needs.pods && { podOf: (token: string) => needs.pods!.podOf(token) }),
    ...(shared && { several: true }),
    hosts: withAudit(store),
    platformId,
    runsOn: { platform, arch, isMusl: (await libc()).startsWith("musl") },
    newId: () => `h-${randomUUID().slice(0, 13)}`,
    clock,
    attach: (row, connection) => {
      log.info("a host is here", { host: row.name, version: row.version });
      driver.attach(row, connection);
    },
    told: (line, facts) => log.error(line, facts),
  };
  return {
    driver: shared ?? driver,
    fleet: () => driver.fleet,
    doors: { hosts: door, elsewhere: links?.elsewhere },
    view: {
      hosts: () => driver.hosts.map((host) => shown(host, clock())),
      hostOf: (workerId) => driver.hosts.find((host) => host.shares.has(workerId))?.row.name,
    },
  };
}

/** Undefined: this platform has all endpoints, and the machines. */
function shareMachines(
  { sharing, hooks, store, link, pool, workerPort, onError }: HostsNeeds,
  make: SharedMachinesOptions["make"],
  drain: Drain,
): { readonly shared: SharedMachines; readonly links: MachineLinks } | undefined {
  if (sharing === undefined) return undefined;
  const { shards, isFirst } = sharing;
  const shared: SharedMachines = new SharedMachines({
    ...{ make, drain, hooks, isFirst, onError },
    isMine: shards.isMine,
    ownerOf: (endpointId) => shards.ownerOf(endpointId),
    rowOf: (workerId) => store.workers.find(workerId),
    dial: () => links.dial,
    isConnected: (workerId) => link().isHeard(workerId),
    connected: () => link().connectedElsewhere(),
    wants: () => pool().waitingForRoom,
    room: { side: (waits) => pool().room.side(waits), give: (asked) => pool().room.give(asked) },
  });
  const links: MachineLinks = sharing.lends({
    machines: shared,
    workersAt: () => {
      const port = workerPort();
      return port && hostPort(port);
    },
    accept: (socket) => link().accept(socket),
  });
  return { shared, links };
}

async function ticketsFor(
  { artifacts, ticketKey, layerUrl, clock }: HostsNeeds,
  image: WorkerImage,
  host: string,
): Promise<LayerTicket[]> {
  // What an image runs by itself has neither.
  const digests = [image.sourceLayer, image.dependencyLayer ?? ""].filter((digest) => digest !== "");
  return Promise.all(
    digests.map(async (digest) => {
      const bytes = (await artifacts.size(digest)) ?? 0;
      // Without it the host asks the platform.
      const bucketUrl = await layerUrl?.(digest).catch(() => undefined);
      return { digest, bytes, ticket: signLayer(ticketKey, digest, host, clock()), bucketUrl };
    }),
  );
}

function shown(host: RemoteHost, now: number): LiveHost {
  return {
    id: host.id,
    connected: host.isHere,
    since: now - (performance.now() - host.since),
    machine: host.machine,
    inUse: host.inUse,
    workers: [...host.shares].map(([worker, share]) => ({ worker, share })),
    problems: [...host.problems, ...otherVersion(host.row)],
  };
}

function otherVersion({ version }: RemoteHost["row"]): string[] {
  if (version === VERSION) return [];
  return [
    `It has svc ${version}, and the platform ${VERSION}: install the same on both (docs/operate/more-machines.md).`,
  ];
}

function unlessAway(error: unknown): void {
  if (!(error instanceof SvcError) || error.code !== "VOLUMES_AWAY") throw error;
}

/** Who joined is written down with the join. */
function withAudit(store: Store): Pick<HostRepository, "join" | "admit" | "findBySecret" | "seen"> {
  const { admit, findBySecret, seen } = store.hosts;
  return {
    admit,
    findBySecret,
    seen,
    join: (tokenHash, now, host) =>
      store.transaction(async (inner) => {
        const joined = await inner.hosts.join(tokenHash, now, host);
        if (typeof joined === "string") return joined;
        const { id, name, labels } = joined;
        const detail = labels.length === 0 ? "" : `labels ${labels.join(", ")}`;
        const who = { keyId: null, keyName: "a join token", address: "" };
        await inner.audit.append({ at: now, ...who, action: "host.join", target: `${name} (${id})`, detail });
        return joined;
      }),
  };
}
