/**
 * `.platform/resources.pkl`: the endpoints that `svc run` has deployed for this project, so that a restart finds them
 * again. A pickle of plain data: Python reads it with `pickle.load`, and reading it here can run nothing.
 *
 * It is a cache: what is in it is checked against the platform, and what cannot be read is made anew.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { RESOURCES_FILE_MAX_BYTES } from "../domain/limits.ts";
import { type PickleData, writePickle } from "../lib/pickle.ts";
import { PickleError } from "../lib/pickle-scalars.ts";
import { readPickle } from "../lib/read-pickle.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { type LivePlace, liveName } from "./live.ts";
import type { Provisioner } from "./provisioner.ts";

/** Version of the file's shape. */
const FORMAT = 1;

/** One endpoint of a platform. */
export interface ProvisionedEndpoint {
  readonly id: string;
  readonly url: string;
  readonly kind: "queue" | "load-balanced";
  readonly app: string;
  readonly environment: string;
  /** Of its settings, dependencies and routes: another one means that the endpoint has to be updated. */
  readonly configurationHash: string;
  /** Whose endpoint it is: another platform knows nothing of it. */
  readonly platformUrl: string;
  /** Milliseconds since 1970. */
  readonly deployedAt: number;
}

/** By the endpoint's name on the platform: "live-hello". */
export type ProvisionedEndpoints = Readonly<Record<string, ProvisionedEndpoint>>;

interface ReadResources {
  readonly endpoints: ProvisionedEndpoints;
  /** Why the file could not be used, for the user to read: it will be made anew. */
  readonly problem: string | undefined;
}

export function resourcesFile(projectDir: string): string {
  return path.join(projectDir, ".platform", "resources.pkl");
}

/** Nothing and no problem when there is no file. Never throws for what stands in it. */
export async function readResources(projectDir: string): Promise<ReadResources> {
  const file = resourcesFile(projectDir);
  try {
    const { size } = await stat(file);
    if (size > RESOURCES_FILE_MAX_BYTES) throw new PickleError(`it is larger than ${RESOURCES_FILE_MAX_BYTES} bytes`);
    return { endpoints: endpointsOf(readPickle(await readFile(file))), problem: undefined };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { endpoints: {}, problem: undefined };
    const why = error instanceof PickleError ? error.message : ((error as NodeJS.ErrnoException).code ?? String(error));
    return { endpoints: {}, problem: `.platform/resources.pkl cannot be used: ${why}. It is made anew.` };
  }
}

/** Replaces the file whole; readable by its owner alone, because URLs and ids of endpoints are nobody else's business. */
export async function writeResources(projectDir: string, endpoints: ProvisionedEndpoints): Promise<void> {
  const file = resourcesFile(projectDir);
  const folder = path.dirname(file);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const ignore = path.join(folder, ".gitignore");
  if (!existsSync(ignore)) await writeFile(ignore, "*\n");
  const sorted = Object.entries(endpoints).sort(([a], [b]) => (a < b ? -1 : 1));
  const resources = Object.fromEntries(sorted.map(([name, endpoint]) => [name, fieldsOf(endpoint)]));
  await writeFileAtomic(file, writePickle({ version: FORMAT, endpoints: resources }), 0o600);
}

const TEXTS = ["id", "url", "kind", "app", "environment", "configurationHash", "platformUrl"] as const;

function fieldsOf(endpoint: ProvisionedEndpoint): Record<string, PickleData> {
  return Object.fromEntries([...TEXTS, "deployedAt" as const].map((field) => [field, endpoint[field]]));
}

function endpointsOf(data: PickleData): ProvisionedEndpoints {
  if (!isDict(data) || data.version !== FORMAT || !isDict(data.endpoints))
    throw new PickleError("it has another shape");
  for (const [name, endpoint] of Object.entries(data.endpoints)) {
    if (isEndpoint(endpoint)) continue;
    throw new PickleError(`what it says about ${JSON.stringify(name)} is not complete`);
  }
  return data.endpoints as unknown as ProvisionedEndpoints;
}

function isEndpoint(data: PickleData): boolean {
  if (!isDict(data) || typeof data.deployedAt !== "number") return false;
  if (data.kind !== "queue" && data.kind !== "load-balanced") return false;
  return TEXTS.every((field) => typeof data[field] === "string");
}

function isDict(data: PickleData | undefined): data is { readonly [key: string]: PickleData } {
  return typeof data === "object" && data !== null && !Array.isArray(data);
}

/** Keeps .platform/resources.pkl true to what is live; written only when that changed. */
export class ResourcesMemory {
  readonly #projectDir: string;
  #endpoints: ProvisionedEndpoints;

  constructor(projectDir: string, endpoints: ProvisionedEndpoints) {
    this.#projectDir = projectDir;
    this.#endpoints = endpoints;
  }

  async keep(place: LivePlace, platformUrl: string, { live }: Provisioner): Promise<void> {
    const changed = [...live].filter(([name, { record, configurationHash }]) => {
      const known = this.#endpoints[liveName(name)];
      return (
        known?.id !== record.id || known.configurationHash !== configurationHash || known.platformUrl !== platformUrl
      );
    });
    if (changed.length === 0) return;
    const entries = changed.map(([name, { record, configurationHash }]) => {
      const { id, url, kind } = record;
      const entry = { id, url, kind, ...place, configurationHash, platformUrl, deployedAt: Date.now() };
      return [liveName(name), entry] as const;
    });
    this.#endpoints = { ...this.#endpoints, ...Object.fromEntries(entries) };
    await writeResources(this.#projectDir, this.#endpoints);
  }
}
