/**
 * Makes and deletes the Pods of pools: what is to be done is decided by src/domain/pool-plan.ts, this looks and applies. Nothing here is on the
 * way of a start: a worker is started on a host that is there, and the API server may be away meanwhile.
 */
import { randomBytes } from "node:crypto";
import type { Need } from "../domain/capacity.ts";
import { gpusAmiss, poolsAsFound } from "../domain/gpu-offers.ts";
import { POOL_LOOK_MS, POOL_REFUSED_REST_MS } from "../domain/limits.ts";
import type { HostMachine } from "../domain/placement.ts";
import { decidePools } from "../domain/pool-plan.ts";
import {
  canTake,
  HELD_FOR_ALL,
  type Made,
  machineOf,
  type Pool,
  type PoolHost,
  type Step,
  type Wish,
} from "../domain/pools.ts";
import type { Volume } from "../domain/volume.ts";
import { ApiRefusal, type KubernetesApi } from "./api.ts";
import { type Pod, readPod } from "./pod.ts";
import { HOLDER_ANNOTATION, madeDifferently, madeOf, POOL_LABEL, podSpec, RELEASE_LABEL } from "./pod-spec.ts";
import { PodTokens } from "./pod-tokens.ts";
import { PodWatch } from "./pod-watch.ts";
import { noticesOf, type PoolState, type PoolView, viewOf, waitingWords } from "./pool-words.ts";
import { type PoolsFile, poolOf } from "./pools-file.ts";
import { type PodHost, SeenPods } from "./seen-pods.ts";

/** What the rest of the platform keeps of hosts in Pods. */
export interface PodHosts {
  readonly hosts: readonly PodHost[];
  /** Uids of their Pods. */
  readonly pods: ReadonlySet<string>;
  /** No further worker is started there from this moment on. */
  close(id: string): void;
  /** Kept before the first of the holder's workers can start there. */
  hold(id: string, holder: string): Promise<void>;
  remove(id: string): Promise<void>;
}

interface PoolControllerOptions {
  readonly file: PoolsFile;
  readonly api: KubernetesApi;
  readonly hosts: () => PodHosts;
  /** The first of them that may be of use, at most POOL_WISHES_MAX. */
  readonly wishes: (isOfUse: (need: Need) => boolean) => Promise<readonly Wish[]>;
  /** Makes the folder of a volume. */
  readonly makeVolume: (volume: Volume) => Promise<void>;
  /** Of the platform's certificate for machines; undefined before it listens. */
  readonly fingerprint: () => string | undefined;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly told: (line: string, facts: Readonly<Record<string, unknown>>) => void;
  /** What `view` says is another. */
  readonly viewChanged: () => void;
  readonly onError: (error: unknown) => void;
}

/** A Pod that proved itself. */
export interface AdmittedPod {
  readonly name: string;
  readonly uid: string;
  readonly holder: string;
  readonly labels: readonly string[];
}

interface Refused {
  readonly pool: string;
  readonly words: string;
  readonly until: number;
}

const SUFFIX_BYTES = 3;
const NAME_PREFIX_MAX_CHARS = 56;

export class PoolController {
  readonly #options: PoolControllerOptions;
  readonly #pools: readonly Pool[];
  readonly #watch: PodWatch;
  readonly #tokens: PodTokens;
  readonly #audience: string;
  /** Uids of Pods whose deletion was asked for. */
  readonly #deleting = new Set<string>();
  readonly #seen: SeenPods;
  /** By pool: what its Pods are made of. */
  readonly #made: ReadonlyMap<string, readonly string[]>;
  /** By what was to be made: why it could not be, and until when it is not tried again. */
  readonly #refused = new Map<string, Refused>();
  /** By uid: until when its deletion is not tried again. */
  readonly #undeleted = new Map<string, number>();
  /** Ends what is asked of the API server: its answer may be far. */
  readonly #over = new AbortController();
  #trouble: string | undefined;
  /** As they were last, and the pools as those show them. */
  #hostsSeen: readonly PoolHost[] = [];
  #found: readonly Pool[];
  /** Every start asks for them; undefined: something may have changed. */
  #machines: readonly HostMachine[] | undefined;
  /** As it was told last. */
  #viewed = "";
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(options: PoolControllerOptions) {
    this.#options = options;
    const { file, api, clock, told } = options;
    this.#pools = file.pools.map((pool) => poolOf(pool, file.volumes !== undefined));
    this.#found = this.#pools;
    this.#made = new Map(file.pools.map((pool) => [pool.name, madeOf({ file, pool })]));
    this.#seen = new SeenPods(this.#pools, (pod) => this.#madeOf(pod));
    this.#audience = `svc:${api.namespace}:${file.release}`;
    this.#tokens = new PodTokens({
      api,
      audience: this.#audience,
      account: file.serviceAccount,
      nowS: () => clock() / 1_000,
    });
    this.#watch = new PodWatch({
      api,
      selector: `${RELEASE_LABEL}=${file.release}`,
      changed: () => this.nudge(),
      troubled: (trouble) => {
        if (trouble !== undefined && this.#trouble === undefined) told("the API server cannot be used", { trouble });
        if (trouble === undefined && this.#trouble !== undefined) told("the API server can be used again", {});
        this.#trouble = trouble;
        this.#tellView();
      },
    });
  }

  start(): void {
    this.#watch.start();
    this.#timer = setInterval(() => this.nudge(), POOL_LOOK_MS);
  }

  /** Pods and their workers go on. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#over.abort();
    await this.#watch.close();
    await this.#looking;
    this.#options.api.close();
  }

  /** Something may have changed. */
  nudge(): void {
    this.#machines = undefined;
    if (this.#looking !== undefined || this.#timer === undefined) return;
    this.#looking = this.#look()
      .catch(this.#options.onError)
      .finally(() => {
        this.#looking = undefined;
      });
  }

  /** The Pod that proves itself by this token; why it may not join, in words; undefined: it is no token of a Pod. */
  async podOf(token: string): Promise<AdmittedPod | string | undefined> {
    if (!PodTokens.isOne(token)) return undefined;
    const proved = await this.#tokens.podOf(token).catch((error: unknown) => {
      this.#options.told("a Pod could not be looked at", { error });
      return "the platform cannot read the API server's keys at present";
    });
    if (typeof proved === "string") return proved;
    const pod = this.#watch.pods.find(({ metadata }) => metadata.uid === proved.uid);
    if (pod === undefined) return "the platform knows no such Pod";
    if (pod.metadata.deletionTimestamp !== undefined || this.#deleting.has(proved.uid))
      return "its Pod is being deleted";
    const pool = this.#pools.find(({ name }) => name === pod.metadata.labels[POOL_LABEL]);
    if (pool === undefined) return "its pool is not one of this platform's";
    const holder = pod.metadata.annotations[HOLDER_ANNOTATION] ?? (pool.trust === "shared" ? HELD_FOR_ALL : "");
    return { ...proved, holder, labels: [pool.name] };
  }

  /** The pools as machines on which nothing can start yet, each with what its hosts wait for. */
  get machines(): readonly HostMachine[] {
    this.#machines ??= this.#found.map((pool) => ({
      ...machineOf(pool),
      id: `pool:${pool.name}`,
      name: `the pool ${pool.name}`,
      labels: [pool.name],
      sharedVolumes: pool.volumes,
      closed: waitingWords(this.#stateOf(pool)),
      potential: true,
      amiss: this.#stateOf(pool).amiss,
    }));
    return this.#machines;
  }

  get view(): readonly PoolView[] {
    return this.#pools.map((pool) => viewOf(this.#stateOf(pool)));
  }

  #tellView(): void {
    this.#machines = undefined;
    const view = JSON.stringify(this.view);
    if (view === this.#viewed) return;
    this.#viewed = view;
    this.#options.viewChanged();
  }

  /** What is wrong, each a sentence; usually nothing. */
  get notices(): readonly string[] {
    return noticesOf(this.#pools.map((pool) => this.#stateOf(pool)));
  }

  #stateOf({ name, max }: Pool): PoolState {
    const declared = this.#pools.find((one) => one.name === name)!;
    return {
      ...{ name, max, pods: this.#podsOf(name), coming: this.#coming(name), trouble: this.#trouble },
      refused: this.#refusedOf(name),
      amiss: gpusAmiss(declared, this.#hostsSeen),
    };
  }

  /** Why a Pod of it could not be made; all others come first. */
  #refusedOf(pool: string): string | undefined {
    const one = this.#refused.get(pool) ?? [...this.#refused.values()].find((refused) => refused.pool === pool);
    return one?.words;
  }

  /** Those whose agents have not joined. */
  #coming(pool: string): Pod[] {
    const { pods } = this.#options.hosts();
    return this.#podsOf(pool).filter(({ metadata }) => !pods.has(metadata.uid));
  }

  #podsOf(pool: string): Pod[] {
    return this.#watch.pods.filter(({ metadata }) => {
      return (
        metadata.labels[POOL_LABEL] === pool &&
        !this.#deleting.has(metadata.uid) &&
        metadata.deletionTimestamp === undefined
      );
    });
  }

  async #look(): Promise<void> {
    if (!this.#watch.isKnown) return this.#lookWithoutPods();
    const { pods } = this.#watch;
    const known = new Set(pods.map(({ metadata }) => metadata.uid));
    const { hosts, remove, close } = this.#options.hosts();
    for (const { id, pod } of hosts) if (!known.has(pod)) await remove(id);
    for (const uid of this.#deleting) if (!known.has(uid)) this.#deleting.delete(uid);
    for (const uid of this.#undeleted.keys()) if (!known.has(uid)) this.#undeleted.delete(uid);
    this.#seen.keepOnly(known);
    const now = performance.now();
    for (const [what, { until }] of this.#refused) if (now > until) this.#refused.delete(what);
    const byPod = new Map(hosts.map((host) => [host.pod, host]));
    const seen = pods.map((pod) => {
      const { uid } = pod.metadata;
      const host = byPod.get(uid);
      const one = this.#seen.see(pod, host, this.#deleting.has(uid), now);
      // Of one that is not here yet nobody knows what runs there.
      if (one.made === "otherwise" && host?.isHere) close(host.id);
      return one;
    });
    for (const step of await this.#decide(seen)) {
      // Pods that are there are used also while the API server is away.
      if (step.kind === "hold" || this.#trouble === undefined) await this.#apply(step, byPod);
    }
    this.#tellView();
  }

  #madeOf({ metadata: { labels, annotations } }: Pod): Made | undefined {
    const made = this.#made.get(labels[POOL_LABEL] ?? "");
    return made && madeDifferently(annotations, made);
  }

  async #decide(seen: readonly PoolHost[]): Promise<Step[]> {
    this.#hostsSeen = seen;
    this.#found = poolsAsFound(this.#pools, seen);
    this.#machines = undefined;
    const isOfUse = (need: Need) => this.#found.some((pool) => canTake(pool, need));
    return decidePools(this.#found, seen, await this.#options.wishes(isOfUse));
  }

  /** The API server was not heard since the platform started: the Pods that have joined are held for those who need one. */
  async #lookWithoutPods(): Promise<void> {
    const { hosts, hold } = this.#options.hosts();
    const seen = hosts.map(({ id, pool, isHere, isClosed, since, holder, shares, problems, machine }): PoolHost => {
      const state = isClosed ? "leaving" : isHere ? "here" : "away";
      const forMs = state === "away" ? performance.now() - since : 0;
      return { pod: id, pool, state, forMs, holder, shares, problems, machine };
    });
    for (const step of await this.#decide(seen)) if (step.kind === "hold") await hold(step.pod, step.holder);
  }

  async #apply(step: Step, byPod: ReadonlyMap<string, PodHost>): Promise<void> {
    if (step.kind === "make") return this.#make(step);
    const pod = this.#watch.pods.find(({ metadata }) => metadata.name === step.pod);
    if (pod === undefined) return;
    const host = byPod.get(pod.metadata.uid);
    if (step.kind === "delete") {
      const other = this.#watch.pods.find(({ metadata }) => metadata.name === step.for);
      if (other !== undefined) this.#seen.gaveWay(other.metadata.uid, pod.spec.nodeName!, performance.now());
      await this.#delete(pod, host, step.why);
    } else if (host !== undefined) await this.#options.hosts().hold(host.id, step.holder);
  }

  async #make({ pool, count, having, avoids }: Extract<Step, { kind: "make" }>): Promise<void> {
    const [{ api, file, fingerprint, told }, { signal }] = [this.#options, this.#over];
    const pinned = fingerprint();
    // One with an endpoint's own image or volumes may be refused for what it is.
    const own = having && `${pool.name} ${having.holder}`;
    const isRefused = this.#refused.has(pool.name) || (own !== undefined && this.#refused.has(own));
    if (isRefused || pinned === undefined) return;
    const settings = file.pools.find(({ name }) => name === pool.name)!;
    const where = `/api/v1/namespaces/${api.namespace}`;
    const prefix = `${file.release}-${pool.name}`.slice(0, NAME_PREFIX_MAX_CHARS);
    try {
      const owner = (await api.ask("GET", `${where}/configmaps/${file.owner}`, { signal })) as {
        metadata: { uid: string };
      };
      const { uid: ownerUid } = owner.metadata;
      const facts = { file, pool: settings, audience: this.#audience, ownerUid, fingerprint: pinned, having, avoids };
      // Its kubelet would make what is missing as root.
      for (const volume of having?.volumes ?? []) await this.#options.makeVolume(volume);
      for (let n = 0; n < count; n++) {
        const name = `${prefix}-${randomBytes(SUFFIX_BYTES).toString("hex")}`;
        const made = await api.ask("POST", `${where}/pods`, { body: podSpec({ ...facts, name }), signal });
        this.#watch.note(readPod(made));
        told("a Pod is made", { pod: name });
      }
    } catch (error) {
      if (signal.aborted) return;
      const words = wordsOf(error);
      const what = own === undefined || isQuota(error) ? pool.name : own;
      this.#refused.set(what, { pool: pool.name, words, until: performance.now() + POOL_REFUSED_REST_MS });
      told("a Pod could not be made", { pool: pool.name, words });
    }
  }

  async #delete({ metadata }: Pod, host: PodHost | undefined, why: string): Promise<void> {
    const { api, told, hosts } = this.#options;
    if (host !== undefined) hosts().close(host.id);
    const { name, uid } = metadata;
    if (performance.now() < (this.#undeleted.get(uid) ?? 0)) return;
    this.#deleting.add(uid);
    try {
      const sent = { body: { preconditions: { uid } }, signal: this.#over.signal };
      await api.ask("DELETE", `/api/v1/namespaces/${api.namespace}/pods/${name}`, sent);
      told("a Pod is deleted", { pod: name, why });
    } catch (error) {
      if (error instanceof ApiRefusal && (error.status === 404 || error.status === 409)) return;
      this.#deleting.delete(uid);
      if (this.#over.signal.aborted) return;
      this.#undeleted.set(uid, performance.now() + POOL_REFUSED_REST_MS);
      told("a Pod could not be deleted", { pod: name, words: wordsOf(error) });
    }
  }
}

/** It holds for whatever Pod of the pool. */
function isQuota(error: unknown): boolean {
  return error instanceof ApiRefusal && error.status === 403 && /exceeded quota/.test(error.message);
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\.$/, "") : String(error);
}
