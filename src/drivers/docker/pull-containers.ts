/** The workers of a platform that are what their images run by themselves, each a container. */
import type { Share } from "../../domain/capacity.ts";
import type { ExitedHead } from "../../domain/worker-protocol.ts";
import type { Own } from "../../lib/own.ts";
import type { CapacityLedger } from "../capacity.ts";
import { pullEnv } from "../pull-env.ts";
import { limitsOf } from "../start-head.ts";
import type { DriverHooks, WorkerImage, WorkerSpec } from "../worker-driver.ts";
import type { Container, Engine } from "./engine.ts";
import { LABEL } from "./labels.ts";
import { type ProgramPlan, PullContainer } from "./pull-container.ts";
import type { Mount } from "./worker-container.ts";

/** Where images people have look for their volume. */
const USUAL_VOLUME = "/runpod-volume";

interface Options {
  readonly hooks: Pick<DriverHooks, "started" | "programPrinted">;
  readonly ledger: CapacityLedger;
  /** Address by name, for containers to look up. */
  readonly hosts: Readonly<Record<string, string>>;
  readonly runtime?: string;
  /** Before the names of containers. */
  readonly prefix: string;
  readonly exited: (head: ExitedHead) => void;
  readonly own: Own;
}

interface Surroundings {
  readonly engine: Engine;
  readonly network: { readonly name: string };
  readonly platformUrl: string;
  /** Resolves when the folders that the container has are there. */
  readonly folders: () => Promise<void>;
}

export class PullContainers {
  readonly #options: Options;
  readonly #byWorker = new Map<string, PullContainer>();
  readonly #images = new Map<string, { readonly imageId: string; readonly mounts: readonly Mount[] }>();

  constructor(options: Options) {
    this.#options = options;
  }

  get workers(): readonly string[] {
    return [...this.#byWorker.keys()];
  }

  /** The image's container can be made from now on. The first of its volumes is also where images people have look for one. */
  prepared(image: WorkerImage, imageId: string, mounts: readonly Mount[]): void {
    const [first] = mounts;
    const isThere = mounts.some(({ to }) => to === USUAL_VOLUME);
    const all = first === undefined || isThere ? mounts : [...mounts, { ...first, to: USUAL_VOLUME }];
    this.#images.set(keyOf(image), { imageId, mounts: all });
  }

  /** Resolves when its program runs. Throws NO_CAPACITY. */
  async start(
    spec: WorkerSpec,
    { engine, network, platformUrl, folders }: Surroundings,
    labels: Readonly<Record<string, string>>,
  ): Promise<void> {
    const { ledger, hosts, runtime = "", prefix, hooks } = this.#options;
    const { image, workerId } = spec;
    const prepared = this.#images.get(keyOf(image));
    if (prepared === undefined) throw new Error(`image ${keyOf(image)} was not prepared`);
    await ledger.withShare(spec, async (share) => {
      const gpu = ledger.hasGpu(share);
      const plan: ProgramPlan = {
        ...prepared,
        entrypoint: image.program?.entrypoint ?? [],
        command: image.program?.command ?? [],
        name: `${prefix}-${workerId}`,
        network: network.name,
        runtime,
        extraHosts: extraHosts(hosts),
        env: { ...pullEnv(spec, { platformUrl, gpu }), ...ledger.gpuEnv(spec, share) },
        share: limitsOf(share),
        gpus: gpu,
        labels: {
          ...labels,
          [LABEL.endpointId]: image.endpointId,
          [LABEL.endpointName]: image.endpointName,
          [LABEL.revision]: spec.revision,
          [LABEL.worker]: workerId,
          [LABEL.share]: JSON.stringify(share),
        },
      };
      const container = this.#open(workerId);
      await folders()
        .then(() => container.launch(engine, plan))
        .catch((error: unknown) => {
          this.#byWorker.delete(workerId);
          throw error;
        });
    });
    hooks.started({ worker: workerId, pid: 0, how: "spawn", limits: "container", isolation: "container" });
  }

  /** One of an earlier platform; false when it is no such worker's. */
  adopt(container: Container, labels: Readonly<Record<string, string>>): boolean {
    const workerId = labels[LABEL.worker];
    if (workerId === undefined) return false;
    this.#options.ledger.restore(workerId, JSON.parse(labels[LABEL.share] ?? "{}") as Share);
    this.#open(workerId).adopt(container);
    return true;
  }

  /** False: it is none of these. */
  stop(workerId: string, graceMs: number): boolean {
    const found = this.#byWorker.get(workerId);
    found?.stop(graceMs);
    return found !== undefined;
  }

  letGo(): void {
    for (const each of this.#byWorker.values()) each.letGo();
  }

  async removeAll(): Promise<void> {
    await Promise.all([...this.#byWorker.values()].map((each) => each.remove()));
  }

  #open(workerId: string): PullContainer {
    const { hooks, exited, own } = this.#options;
    const events = {
      printed: hooks.programPrinted,
      exited: (head: ExitedHead) => {
        this.#byWorker.delete(workerId);
        exited(head);
      },
    };
    const container = new PullContainer(workerId, events, own);
    this.#byWorker.set(workerId, container);
    return container;
  }
}

/** "name:address" */
export function extraHosts(hosts: Readonly<Record<string, string>>): string[] {
  return Object.entries(hosts).map(([name, address]) => `${name}:${address}`);
}

function keyOf({ endpointId, buildId, imageName, volumes }: WorkerImage): string {
  return JSON.stringify([endpointId, buildId, imageName, volumes]);
}
