/**
 * Live endpoints and the code each of them runs. Deploys of one endpoint never overlap; the same endpoint asked for twice
 * is deployed once.
 *
 *   ensure(build, name):  runs this build? ──yes──▶ its record
 *                              └──no──▶ upload what is missing ─▶ deployBuild ─▶ wait until prepared ─▶ its record
 */
import type { LayersBuild } from "../build/build-layers.ts";
import type { BuiltLayer } from "../build/build-result.ts";
import type { ControlPlane } from "../client/control-plane.ts";
import type { BuildInput, Deployment, EndpointRecord } from "../client/records.ts";
import { refuseProblems } from "../client/refuse-problems.ts";
import { SvcError } from "../domain/errors.ts";
import { DEPLOY_READY_MAX_MS, POLL_FIRST_MS, POLL_MAX_MS } from "../domain/limits.ts";
import { manifestLayers } from "../domain/manifest.ts";
import { configurationHash, type LivePlace, liveBuild, liveName } from "./live.ts";

interface ProvisionerEvents {
  /** What is going on with an endpoint, e.g. "installing numpy". */
  onProgress(name: string, text: string): void;
  /** Deployed: made, or changed. `ms` is what it took. */
  onLive(name: string, record: EndpointRecord, change: "created" | "updated", ms: number): void;
}

export interface LiveEndpoint {
  readonly record: EndpointRecord;
  /** Source layer it runs. */
  readonly source: string;
  readonly configurationHash: string;
  /** What a machine has to prepare for it besides the code. */
  readonly preparation: string;
}

interface Deploying {
  readonly key: string;
  readonly done: Promise<LiveEndpoint>;
}

export class Provisioner {
  readonly place: LivePlace;
  readonly #controlPlane: () => ControlPlane;
  readonly #events: ProvisionerEvents;
  /** By declared name. */
  readonly #live = new Map<string, LiveEndpoint>();
  readonly #deploying = new Map<string, Deploying>();
  /** Layers the platform is known to have. */
  readonly #sent = new Set<string>();
  /** Uploads under way, by digest. */
  readonly #sending = new Map<string, Promise<void>>();

  readonly #peersOf: (build: LayersBuild) => readonly string[];

  /** `peersOf`: the endpoints that others of the build may call. */
  constructor(
    controlPlane: () => ControlPlane,
    place: LivePlace,
    peersOf: (build: LayersBuild) => readonly string[],
    events: ProvisionerEvents,
  ) {
    this.#controlPlane = controlPlane;
    this.#peersOf = peersOf;
    this.place = place;
    this.#events = events;
  }

  /** Endpoints this session has put live, by declared name. */
  get live(): ReadonlyMap<string, LiveEndpoint> {
    return this.#live;
  }

  /** The endpoint, running this build. Throws what the platform refuses, and BOOT_FAILED when it cannot be prepared. */
  async ensure(build: LayersBuild, name: string): Promise<LiveEndpoint> {
    const key = keyOf(build, name);
    const there = this.#live.get(name);
    if (there !== undefined && keyOfLive(there) === key) return there;
    const under = this.#deploying.get(name);
    if (under?.key === key) return under.done;
    return this.#begin(build, [name], this.#peers(build, [name])).get(name)!;
  }

  /** Gives the new build to every endpoint in use, in one deploy. */
  async update(build: LayersBuild): Promise<void> {
    const names = [...this.#live.keys()].filter((name) => build.manifest.resources[name] !== undefined);
    const outdated = names.filter((name) => {
      const key = keyOf(build, name);
      return keyOfLive(this.#live.get(name)!) !== key && this.#deploying.get(name)?.key !== key;
    });
    const peers = names.length === 0 ? [] : this.#peers(build, names);
    if (outdated.length === 0 && peers.length === 0) return;
    const begun = this.#begin(build, outdated, peers);
    await Promise.all(outdated.map((name) => begun.get(name)));
  }

  /** Peers that are not there yet. */
  #peers(build: LayersBuild, names: readonly string[]): string[] {
    return this.#peersOf(build).filter(
      (name) => !names.includes(name) && !this.#live.has(name) && !this.#deploying.has(name),
    );
  }

  /** It is not what it was thought to be (removed, or deployed by another): the next call looks again. */
  forget(name: string): void {
    this.#live.delete(name);
  }

  /** Another platform, or one that was away: nothing is known of it. */
  forgetAll(): void {
    this.#live.clear();
    this.#sent.clear();
  }

  /** `peers` come along where the quota allows it. */
  #begin(build: LayersBuild, wanted: readonly string[], peers: readonly string[]): Map<string, Promise<LiveEndpoint>> {
    const names = [...wanted, ...peers];
    const before = names.map((name) => this.#deploying.get(name)?.done.catch(() => {}));
    const all = Promise.all(before).then(async () => {
      if (peers.length === 0) return this.#deploy(build, wanted);
      return this.#deploy(build, names).catch((error: unknown) => {
        if (error instanceof SvcError && error.code === "QUOTA_EXCEEDED") return this.#deploy(build, wanted);
        throw error;
      });
    });
    const started = new Map<string, Promise<LiveEndpoint>>();
    for (const name of names) {
      const done = all.then((records) => this.#prepared(build, name, records.get(name)));
      const deploying: Deploying = { key: keyOf(build, name), done };
      this.#deploying.set(name, deploying);
      const over = () => this.#deploying.get(name) === deploying && this.#deploying.delete(name);
      done.then(over, over);
      started.set(name, done);
    }
    return started;
  }

  async #deploy(build: LayersBuild, names: readonly string[]): Promise<Map<string, EndpointRecord>> {
    if (names.length === 0) return new Map();
    const started = performance.now();
    const deployment = await this.#send(build, names).catch((error: unknown) => {
      if (!(error instanceof SvcError) || error.code !== "LAYER_MISSING") throw error;
      // The platform has removed a layer that was not used for long.
      this.#sent.clear();
      return this.#send(build, names);
    });
    const ms = performance.now() - started;
    const records = new Map<string, EndpointRecord>();
    for (const name of names) {
      const record = deployment.endpoints.find((endpoint) => endpoint.name === liveName(name))!;
      this.#events.onLive(name, record, this.#live.has(name) ? "updated" : "created", ms);
      records.set(name, record);
    }
    return records;
  }

  async #send(build: LayersBuild, names: readonly string[]): Promise<Deployment> {
    const controlPlane = this.#controlPlane();
    const { manifest, env } = liveBuild(build, names);
    const input = { ...this.place, manifest, env, keepRemoved: true };
    const layers = manifestLayers(manifest);
    const wanted = layers.filter((digest) => !this.#sent.has(digest));
    const onProgress = (text: string) => this.#events.onProgress(names.join(", "), text);
    await sendLayers(controlPlane, input, build, wanted, this.#sending, onProgress);
    const deployment = await controlPlane.deployBuild(input);
    for (const digest of layers) this.#sent.add(digest);
    return deployment;
  }

  async #prepared(build: LayersBuild, name: string, record: EndpointRecord | undefined): Promise<LiveEndpoint> {
    if (record === undefined)
      throw new SvcError("QUOTA_EXCEEDED", `The endpoint "${name}" did not fit into the quota.`);
    const live = {
      record,
      source: build.manifest.sourceLayer,
      configurationHash: configurationHash(build, name),
      preparation: preparationOf(build, name),
    };
    const before = this.#live.get(name);
    // New code alone is unpacked in milliseconds: the call itself waits for that.
    const quick = before !== undefined && before.preparation === live.preparation;
    if (!quick) await this.#waitPrepared(name, record);
    this.#live.set(name, live);
    return live;
  }

  async #waitPrepared(name: string, first: EndpointRecord): Promise<void> {
    const deadline = performance.now() + DEPLOY_READY_MAX_MS;
    let pauseMs = POLL_FIRST_MS;
    for (let record: EndpointRecord | null = first; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MAX_MS)) {
      if (record === null) throw new SvcError("ENDPOINT_NOT_FOUND", `The endpoint "${first.name}" was removed.`);
      const { state, reason, progress } = record.status;
      if (state === "BLOCKED") throw new SvcError("BOOT_FAILED", reason);
      if (state !== "PREPARING" || performance.now() > deadline) return;
      const last = progress.at(-1);
      if (last !== undefined) this.#events.onProgress(name, last);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      record = await this.#controlPlane().endpoint(first.id);
    }
  }
}

function keyOf(build: LayersBuild, name: string): string {
  return `${build.manifest.sourceLayer} ${configurationHash(build, name)}`;
}

function preparationOf({ manifest }: LayersBuild, name: string): string {
  const { dependencyLayer, baseDependencies, pythonVersion, imageName, ...rest } = manifest.resources[name]!;
  const { systemDependencies, imageSteps } = rest;
  return JSON.stringify([dependencyLayer, baseDependencies, pythonVersion, imageName, systemDependencies, imageSteps]);
}

function keyOfLive(live: LiveEndpoint): string {
  return `${live.source} ${live.configurationHash}`;
}

/**
 * Sends those of the build's layers that the platform lacks. After a save that is the source layer alone: it is sent
 * without a question, because the question costs as much. Throws what the platform would refuse, before anything is sent.
 * `sending`: uploads under way by digest, shared by endpoints that are deployed at the same time.
 */
async function sendLayers(
  controlPlane: ControlPlane,
  input: BuildInput,
  build: LayersBuild,
  wanted: readonly string[],
  sending: Map<string, Promise<void>>,
  onProgress: (text: string) => void,
): Promise<void> {
  const known = wanted.length === 1 && wanted[0] === build.manifest.sourceLayer;
  let missing = wanted;
  if (!known && wanted.length > 0) {
    const plan = await controlPlane.planBuild(input);
    refuseProblems(plan.problems);
    missing = plan.missingLayers;
  }
  for (const digest of missing) {
    const layer = build.layers.find((each) => each.digest === digest)!;
    if (!sending.has(digest)) {
      const over = () => sending.delete(digest);
      sending.set(digest, send(controlPlane, layer, onProgress).finally(over));
    }
    await sending.get(digest);
  }
}

function send(controlPlane: ControlPlane, layer: BuiltLayer, onProgress: (text: string) => void): Promise<void> {
  let shown = -1;
  return controlPlane.uploadLayer(layer.digest, layer.path, {
    onProgress: (sentBytes) => {
      const percent = Math.floor((10 * sentBytes) / Math.max(1, layer.sizeBytes)) * 10;
      if (layer.kind === "dependencies" && percent > shown) onProgress(`sending packages: ${percent} %`);
      shown = Math.max(shown, percent);
    },
    // A call waits for the code and is told at once that the platform is away.
    patienceMs: layer.kind === "source" ? 0 : undefined,
  });
}
