/** Pools of Pods beside the rest of the platform: what they are wanted for, and what is kept of their hosts. */
import { type Need, needOf } from "../domain/capacity.ts";
import { ownImage } from "../domain/driver-offers.ts";
import { SvcError } from "../domain/errors.ts";
import { gpuProblems } from "../domain/gpu-offers.ts";
import type { RoomWant } from "../domain/host-protocol.ts";
import { POOL_WISHES_MAX } from "../domain/limits.ts";
import { asIfMade, type Fleet, type HostMachine, imageKey, placeAmong, wishesOf } from "../domain/placement.ts";
import type { Wish } from "../domain/pools.ts";
import type { MountedVolume, Volume } from "../domain/volume.ts";
import type { HostsDriver } from "../drivers/hosts/hosts-driver.ts";
import { KubernetesApi } from "../kubernetes/api.ts";
import { type AdmittedPod, type PodHosts, PoolController } from "../kubernetes/pool-controller.ts";
import type { PoolView } from "../kubernetes/pool-words.ts";
import { readPoolsFile } from "../kubernetes/pools-file.ts";
import type { Log } from "../lib/log.ts";
import type { Endpoint, Store } from "../store/store.ts";
import { volumesOfEndpoint } from "../workers/images.ts";
import type { RoomWish } from "../workers/room.ts";
import type { Config } from "./config.ts";

interface PodsNeeds {
  readonly config: Pick<Config, "pools">;
  readonly store: Pick<Store, "hosts" | "environments" | "apps">;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly waitingForRoom: () => readonly RoomWish[];
  readonly fingerprint: () => string | undefined;
  /** Makes the folder of a volume. */
  readonly makeVolume: (volume: Volume) => Promise<void>;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly onError: (error: unknown) => void;
  readonly log: Log;
}

export class Pods {
  readonly #needs: PodsNeeds;
  readonly #controller: PoolController;
  #driver: HostsDriver | undefined;
  #othersWant: () => Promise<readonly RoomWant[]> = async () => [];
  /** Of the pools, each time it is another. */
  viewChanged = () => {};

  /** Throws CONFIG_INVALID. Undefined where no pools are configured. */
  static open(needs: PodsNeeds): Pods | undefined {
    const { pools } = needs.config;
    return pools === undefined ? undefined : new Pods(needs, pools);
  }

  private constructor(needs: PodsNeeds, { file, host, port, account }: NonNullable<Config["pools"]>) {
    this.#needs = needs;
    this.#controller = new PoolController({
      file: readPoolsFile(file),
      api: new KubernetesApi({ host, port, account }),
      hosts: () => this.#hosts,
      wishes: (isOfUse) => this.#wishes(isOfUse),
      fingerprint: needs.fingerprint,
      makeVolume: needs.makeVolume,
      clock: needs.clock,
      told: (line, facts) => needs.log.info(line, facts),
      viewChanged: () => this.viewChanged(),
      onError: needs.onError,
    });
  }

  /** The driver whose hosts the Pods are, and what endpoints of other platforms wait for. */
  over(driver: HostsDriver, othersWant = this.#othersWant): void {
    this.#driver = driver;
    this.#othersWant = othersWant;
  }

  start(): void {
    this.#controller.start();
  }

  stop(): Promise<void> {
    return this.#controller.stop();
  }

  podOf(token: string): Promise<AdmittedPod | string | undefined> {
    return this.#controller.podOf(token);
  }

  get machines(): readonly HostMachine[] {
    return this.#controller.machines;
  }

  get view(): readonly PoolView[] {
    return this.#controller.view;
  }

  get notices(): readonly string[] {
    return this.#controller.notices;
  }

  get #hosts(): PodHosts {
    const { store } = this.#needs;
    const all = (this.#driver?.hosts ?? []).filter(({ row }) => row.pod !== "");
    return {
      // Many, and asked for more often than what is known of each.
      get pods() {
        return new Set(all.map(({ row }) => row.pod));
      },
      get hosts() {
        return all.map(({ id, row, isHere, isClosed, since, silentSince, usedAt, shares, imageProblems, machine }) => ({
          ...{ id, pod: row.pod, pool: row.labels[0] ?? "", holder: row.holder, isClosed, usedAt },
          ...{ isHere: isHere && silentSince === undefined, since: silentSince ?? since },
          // Seldom asked for, and many.
          get shares() {
            return [...shares.values()];
          },
          problems: imageProblems,
          machine,
        }));
      },
      close: (id) => {
        const host = all.find((one) => one.id === id);
        if (host !== undefined) host.isGiven = true;
      },
      hold: async (id, holder) => {
        await store.hosts.hold(id, holder);
      },
      remove: async (id) => {
        await store.hosts.remove(id);
      },
    };
  }

  /** Workers that found no room, and images that no machine may run: those have one worker each, for a start. */
  async #wishes(isOfUse: (need: Need) => boolean): Promise<Wish[]> {
    const { waitingForRoom, endpoints } = this.#needs;
    const driver = this.#driver!;
    const { fleet } = driver;
    const others = (await this.#othersWant()).map((want) => ({ ...want, need: undefined }));
    type Want = Pick<RoomWish, "endpointId" | "missing" | "need">;
    const wants = new Map<string, Want>();
    const homeless = new Map(driver.homeless.images.map((image) => [image.endpointId, image]));
    for (const endpointId of homeless.keys()) wants.set(endpointId, { endpointId, missing: 1, need: undefined });
    for (const want of [...waitingForRoom(), ...others]) wants.set(want.endpointId, want);
    const wishes: Wish[] = [];
    for (const { endpointId, missing, need } of wants.values()) {
      const endpoint = await endpoints.find(endpointId);
      if (endpoint === undefined) continue;
      const wish = { ...(await this.#wish(endpoint, fleet, missing)), ...(need && { need }) };
      const image = homeless.get(endpointId);
      if (isOfUse(wish.need)) wishes.push(wish);
      // A machine of before may have it, when it is back.
      else if (image !== undefined && driver.hosts.every(({ isKnown }) => isKnown))
        driver.homeless.failed(image, this.#lackOf(fleet, wish.need));
      if (wishes.length >= POOL_WISHES_MAX) break;
    }
    return wishes;
  }

  /** Of what no Pod would ever have. */
  #lackOf(fleet: Fleet, need: Need): SvcError {
    const [gpu] = gpuProblems(this.machines, { ...need, hosts: need.label });
    if (gpu !== undefined) return new SvcError("NO_CAPACITY", gpu);
    const placed = placeAmong(asIfMade({ ...fleet, machines: this.machines }), [], need);
    const why = "lack" in placed ? (placed.short ?? placed.lack) : "it asks for what none of them has";
    return new SvcError("NO_CAPACITY", `No pool makes Pods that it can run on: ${why}.`, {
      help: "Add a pool that has it (hosts.pools of the chart, docs/reference/pools.md), let a machine join that has it (svc worker join), or change what the endpoint asks for.",
    });
  }

  async #wish(endpoint: Endpoint, fleet: Fleet, missing: number): Promise<Wish> {
    const { id: endpointId, environmentId, buildId } = endpoint;
    const need = { ...needOf(fleet, endpoint), ...wishesOf(endpoint) };
    return {
      endpointId,
      environmentId,
      volumes: await this.#volumesOf(endpoint),
      ownImage: ownImage(endpoint),
      image: imageKey({ endpointId, buildId: buildId ?? "", imageName: endpoint.imageName }),
      need,
      missing,
    };
  }

  async #volumesOf(endpoint: Endpoint): Promise<readonly MountedVolume[]> {
    if (endpoint.networkVolumeId === "" || endpoint.environmentId === null) return [];
    const { store } = this.#needs;
    const environment = await store.environments.find(endpoint.environmentId);
    const app = environment && (await store.apps.find(environment.appId));
    return volumesOfEndpoint(endpoint, app?.name, environment?.name).volumes;
  }
}
