/**
 * Opens secrets when a worker starts, and takes their values out of what workers print. A value that was replaced is
 * masked too: workers that got it may still run.
 */
import { environmentProblem, secretNames } from "../domain/env.ts";
import { SvcError } from "../domain/errors.ts";
import { SECRET_MASKED_MIN_CHARS, SECRET_MASKED_VALUES_MAX } from "../domain/limits.ts";
import { secretLabel } from "../domain/secret.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { Endpoint, Store } from "../store/store.ts";

export const MASK = "********";

export class SecretValues {
  readonly #store: Store;
  readonly #sealed: SealedText;
  /** Endpoint → texts to mask. */
  readonly #given = new Map<string, Set<string>>();

  constructor(store: Store, sealed: SealedText) {
    this.#store = store;
    this.#sealed = sealed;
  }

  /** The endpoint's variables with the values of its secrets. Throws INVALID_SETTING for one that cannot be had. */
  async envOf(endpoint: Endpoint): Promise<Record<string, string>> {
    const values = await this.#open(endpoint);
    const bytes = (secret: string) => Buffer.byteLength(values.get(secret) ?? "");
    const problem = environmentProblem(endpoint.name, endpoint.env, bytes);
    if (problem !== undefined) throw new SvcError("INVALID_SETTING", problem);
    this.#remember(endpoint.id, [...values.values()]);
    const entries = Object.entries(endpoint.env);
    return Object.fromEntries(
      entries.map(([name, value]) => [name, typeof value === "string" ? value : values.get(value.secret)!]),
    );
  }

  /** After a start of the platform: workers that survived it print what they were given before. */
  async recall(): Promise<void> {
    const used = new Set((await this.#store.workers.list()).map(({ endpointId }) => endpointId));
    for (const id of used) {
      const endpoint = await this.#store.endpoints.find(id);
      if (endpoint !== undefined) await this.envOf(endpoint).catch(() => {});
    }
  }

  mask(endpointId: string, text: string): string {
    const given = this.#given.get(endpointId);
    if (given === undefined) return text;
    let masked = text;
    for (const value of [...given].sort((a, b) => b.length - a.length)) masked = masked.replaceAll(value, MASK);
    return masked;
  }

  forget(endpointId: string): void {
    this.#given.delete(endpointId);
  }

  async #open({ id, name, environmentId, env }: Endpoint): Promise<Map<string, string>> {
    const names = secretNames(env);
    const values = new Map<string, string>();
    if (names.length === 0 || environmentId === null) return values;
    const stored = new Map((await this.#store.secrets.listByEnvironment(environmentId)).map((one) => [one.name, one]));
    for (const secret of names) {
      const found = stored.get(secret);
      if (found === undefined) throw unusable(name, secret, "it does not exist");
      try {
        values.set(secret, this.#sealed.open(found.sealed, secretLabel(environmentId, secret)));
      } catch {
        this.#given.delete(id);
        throw unusable(name, secret, "it was sealed with a key that the platform does not have");
      }
    }
    return values;
  }

  #remember(endpointId: string, values: readonly string[]): void {
    const texts = values.flatMap((value) => [value, ...value.split("\n")].map((text) => text.trim()));
    const worth = texts.filter((text) => text.length >= SECRET_MASKED_MIN_CHARS);
    if (worth.length === 0) return;
    const given = getOrInsert(this.#given, endpointId, () => new Set<string>());
    for (const text of worth) {
      given.delete(text);
      given.add(text);
    }
    while (given.size > SECRET_MASKED_VALUES_MAX) given.delete(given.values().next().value!);
  }
}

function unusable(endpoint: string, secret: string, why: string): SvcError {
  return new SvcError("INVALID_SETTING", `Endpoint "${endpoint}" uses the secret "${secret}", but ${why}.`, {
    help: `Set it: svc secret set ${secret}`,
  });
}
