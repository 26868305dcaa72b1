import { type LivePlace, liveName } from "./live.ts";
import type { Provisioner } from "./provisioner.ts";
import { type ProvisionedEndpoints, writeResources } from "./resources-file.ts";

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
