/** What the platform asks of this machine: the calls of a driver, each answered once. */
import {
  AGENT_CALLS_MAX,
  AGENT_MESSAGE_MAX_CHARS,
  AGENT_REPORT_MAX_CHARS,
  AGENT_REPORT_MS,
} from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import { type AskHead, HOST_FRAME, type HostCall } from "../domain/host-protocol.ts";
import type { RegistryLogin } from "../domain/registry.ts";
import { lackOf } from "../domain/storage.ts";
import { VERSION } from "../domain/version.ts";
import { askBody } from "../drivers/hosts/host-asks.ts";
import type { WorkerImage } from "../drivers/worker-driver.ts";
import type { LocalDriver } from "../server/driver.ts";
import type { AgentEvent } from "./agent-events.ts";
import type { FetchedLayers } from "./fetch-layers.ts";

interface PlatformCallsOptions {
  readonly driver: LocalDriver;
  readonly layers: Pick<FetchedLayers, "allow">;
  readonly send: (type: number, head: object, body?: Uint8Array) => void;
  readonly told: (event: AgentEvent) => void;
}

export class PlatformCalls {
  readonly #options: PlatformCallsOptions;
  readonly #prepared = new Set<string>();
  /** By endpoint; never written to the disk. */
  readonly #logins = new Map<string, RegistryLogin>();
  /** Names by worker, for those who watch. */
  readonly endpointNames = new Map<string, string>();
  /** Workers whose image is looked after before they are started: a stop comes behind that. */
  readonly #before = new Map<string, Promise<void>>();
  #underWay = 0;
  /** The agent is about to end. */
  isLeaving = false;

  constructor(options: PlatformCallsOptions) {
    this.#options = options;
  }

  /** Who pulls the image of an endpoint; undefined: anybody. */
  loginOf(endpointId: string): RegistryLogin | undefined {
    return this.#logins.get(endpointId);
  }

  asked(ask: AskHead, body: Buffer): void {
    this.#underWay++;
    this.#answered(ask, body)
      .catch((error: unknown) => this.#answer(ask, undefined, error))
      .finally(() => {
        this.#underWay--;
      })
      .catch(() => {}); // The link is gone: nobody waits for the answer.
  }

  async #answered(ask: AskHead, body: Buffer): Promise<void> {
    if (this.#underWay > AGENT_CALLS_MAX)
      throw new SvcError("STARTS_PAUSED", "This host has too many calls under way.");
    this.#answer(ask, await this.#do(ask, body));
  }

  async #do({ id, call }: AskHead, body: Buffer): Promise<object> {
    const { driver } = this.#options;
    switch (call as HostCall) {
      case "prepare": {
        const { image, layers, login } = askBody("prepare", body);
        this.#options.layers.allow(layers);
        if (login === undefined) this.#logins.delete(image.endpointId);
        else this.#logins.set(image.endpointId, login);
        await this.#prepare(image, (line) => {
          this.#options.send(HOST_FRAME.REPORT, { id, line: line.slice(0, AGENT_REPORT_MAX_CHARS) });
        });
        return {};
      }
      case "start":
        await this.#start(body);
        return {};
      case "stop": {
        const { workerId, graceMs } = askBody("stop", body);
        await this.#before.get(workerId);
        await driver.stop(workerId, graceMs);
        return {};
      }
      case "retire": {
        const { endpointId, revision } = askBody("retire", body);
        await driver.retire(endpointId, revision);
        return {};
      }
      case "vouched":
        return { workers: await driver.vouched() };
      case "unused": {
        const { keep, before } = askBody("unused", body);
        const kept = new Set(keep.map(({ endpointId }) => endpointId));
        for (const endpointId of this.#logins.keys()) if (!kept.has(endpointId)) this.#logins.delete(endpointId);
        await driver.removeUnused(keep, before);
        return {};
      }
    }
    throw new SvcError("STARTS_PAUSED", `The svc of this host, ${VERSION}, does not know the call "${call}".`, {
      help: "Install the platform's version there.",
    });
  }

  async #prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const { driver, told } = this.#options;
    const endpoint = image.endpointName;
    const began = performance.now();
    told({ kind: "preparing", endpoint });
    const still = setInterval(() => {
      report(`${endpoint} is being prepared for ${Math.round((performance.now() - began) / 1_000)} s`);
    }, AGENT_REPORT_MS);
    try {
      await driver.prepare(image, report);
    } catch (error) {
      told({ kind: "unprepared", endpoint, reason: (error as Error).message });
      throw error;
    } finally {
      clearInterval(still);
    }
    this.#prepared.add(keyOf(image));
    told({ kind: "prepared", endpoint, ms: Math.round(performance.now() - began) });
  }

  async #start(body: Buffer): Promise<void> {
    const { driver } = this.#options;
    const { spec, share } = askBody("start", body);
    if (this.isLeaving) throw new SvcError("NO_CAPACITY", "This host takes no more workers: it is about to leave.");
    // An agent that was started again knows nothing of what the one before it prepared; it lies there.
    if (!this.#prepared.has(keyOf(spec.image))) {
      const prepared = driver.prepare(spec.image, () => {});
      this.#before.set(
        spec.workerId,
        prepared.catch(() => {}),
      );
      await prepared.finally(() => this.#before.delete(spec.workerId));
      this.#prepared.add(keyOf(spec.image));
    }
    this.endpointNames.set(spec.workerId, spec.image.endpointName);
    try {
      await driver.start({ ...spec, share });
    } catch (error) {
      this.endpointNames.delete(spec.workerId);
      throw error;
    }
  }

  #answer({ id }: AskHead, result: object | undefined, thrown?: unknown): void {
    const { send } = this.#options;
    if (result !== undefined) {
      send(HOST_FRAME.ANSWER, { id }, Buffer.from(JSON.stringify(result)));
      return;
    }
    const { code, message, help } = inWords(thrown);
    const short = (text: string) => text.slice(0, AGENT_MESSAGE_MAX_CHARS);
    const error = { code, message: short(message), help: help === undefined ? undefined : short(help) };
    send(HOST_FRAME.ANSWER, { id, error });
  }
}

function inWords(error: unknown): { code: string; message: string; help: string | undefined } {
  if (error instanceof SvcError) return error;
  const lack = lackOf(error);
  if (lack === "room") {
    return {
      code: "STORAGE_FULL",
      message: "The disk of this host is full.",
      help: "Make room on the disk of its data directory.",
    };
  }
  return { code: "INTERNAL", message: error instanceof Error ? error.message : String(error), help: undefined };
}

function keyOf({ endpointId, buildId, imageName, volumes }: WorkerImage): string {
  return JSON.stringify([endpointId, buildId, imageName, volumes]);
}
