/** Images that no machine may run at present: whoever prepares one waits until a machine that is made for it has it. */
import { podProblems } from "../../domain/driver-offers.ts";
import { SvcError } from "../../domain/errors.ts";
import { type HostMachine, imageKey } from "../../domain/placement.ts";
import type { WorkerImage } from "../worker-driver.ts";

interface Waiting extends PromiseWithResolvers<void> {
  readonly image: WorkerImage;
  readonly report: (line: string) => void;
  /** What was reported last. */
  said: string;
}

export class HomelessImages {
  readonly #machines: () => readonly HostMachine[];
  readonly #waiting = new Map<string, Waiting>();

  /** `machines` are those that can be made. */
  constructor(machines: () => readonly HostMachine[]) {
    this.#machines = machines;
  }

  get images(): readonly WorkerImage[] {
    return [...this.#waiting.values()].map(({ image }) => image);
  }

  /** Resolves when a machine has it; rejects with what is in the way there, or on every one that can be made. */
  async wait(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const [lack] = podProblems(image, image.pulls === "image");
    if (lack !== undefined) throw new SvcError("INVALID_SETTING", lack);
    if (image.volumes.length > 0 && !this.#machines().some(({ sharedVolumes }) => sharedVolumes)) {
      throw new SvcError("NO_CAPACITY", "It has volumes, and the Pods of this platform's pools have none.", {
        help: "Install the chart with volumes.size or volumes.claim (docs/operate/kubernetes.md), let a machine join that has them (svc worker join --shared-volumes), or leave volumes= out.",
      });
    }
    const key = imageKey(image);
    const waiting = this.#waiting.get(key) ?? { ...Promise.withResolvers<void>(), image, report, said: "" };
    this.#waiting.set(key, waiting);
    this.tell();
    return waiting.promise;
  }

  done(image: WorkerImage): void {
    this.#taken(image)?.resolve();
  }

  failed(image: WorkerImage, error: unknown): void {
    this.#taken(image)?.reject(error);
  }

  /** No worker starts from it any more. */
  forget(image: WorkerImage): void {
    this.failed(image, new SvcError("CONFLICT", "It is not needed any more."));
  }

  report(image: WorkerImage, line: string): void {
    this.#waiting.get(imageKey(image))?.report(line);
  }

  /** Says what is waited for, when that is something else than before. */
  tell(): void {
    if (this.#waiting.size === 0) return;
    const line = `waiting for a machine: ${this.#machines()
      .map(({ name, closed }) => `${name}: ${closed}`)
      .join("; ")}`;
    for (const waiting of this.#waiting.values()) {
      if (waiting.said === line) continue;
      waiting.said = line;
      waiting.report(line);
    }
  }

  close(): void {
    for (const { image } of [...this.#waiting.values()]) {
      this.failed(image, new SvcError("SHUTTING_DOWN", "The platform stops."));
    }
  }

  #taken(image: WorkerImage): Waiting | undefined {
    const key = imageKey(image);
    const waiting = this.#waiting.get(key);
    this.#waiting.delete(key);
    return waiting;
  }
}

/** Else its machine is not made for such an endpoint. */
export function isMendable(error: unknown): boolean {
  return !(error instanceof SvcError && error.code === "INVALID_SETTING");
}
