/**
 * Who a presented secret belongs to: an API key, also through a session of the console, or the token of a worker. Answers at once for a secret seen before;
 * what is known is dropped as soon as the store says it changed. Unknown secrets are not kept.
 */
import { hashSecret, type KeyChecker, type Principal } from "../domain/api-key.ts";
import { CACHED_KEYS_MAX, KEY_USE_NOTED_MS } from "../domain/limits.ts";
import { isRemoved } from "../domain/removal.ts";
import { cached } from "../lib/cached.ts";
import type { ApiKey, Endpoint, Store, StoreChange } from "./store.ts";

/** Environment of a worker whose endpoint has none: it reaches no endpoint, where null would reach all. */
const NO_ENVIRONMENT = "";

/** What is known of a secret, or of a signer of URLs. */
export interface KnownKey {
  readonly principal: Principal;
  readonly expiresAt: number | null;
  /** When its last use was written down; null for a worker's token, whose use is not. */
  usedAt: number | null;
}

/** Where keys are looked up: the store, or over a link whoever has it. */
export interface KeySource {
  /** By the hash of a secret. */
  find(hash: string): Promise<KnownKey | undefined>;
  findSigner(signer: string): Promise<KnownKey | undefined>;
  /** Notes that a key was used. */
  touch(keyId: string, usedAt: number): Promise<void>;
  onChange(listener: (change: Pick<StoreChange, "table" | "id">) => void): void;
}

export function keysOf(store: Store): KeySource {
  return {
    find: async (hash) =>
      (await findKey(store, hash)) ?? (await findWorker(store, hash)) ?? (await findSession(store, hash)),
    async findSigner(signer) {
      const id = signer.slice(2);
      if (signer.startsWith("k-")) return knownKey(await store.keys.find(id));
      const endpoint = await store.endpoints.find(id);
      if (endpoint === undefined || isRemoved(endpoint)) return undefined;
      return { principal: workerOf(endpoint, ""), expiresAt: null, usedAt: null };
    },
    touch: (keyId, usedAt) => store.keys.touch(keyId, usedAt),
    onChange: store.onChange,
  };
}

/** Whether what is known here is what is stored. As long as another may have changed it unheard, the source is asked. */
export type IsSure = () => boolean;

const always: IsSure = () => true;

/** `clock` gives milliseconds since the epoch. */
export function createKeyChecker(store: Store, clock: () => number, isSure?: IsSure): KeyChecker {
  return checkKeys(keysOf(store), clock, isSure);
}

export function checkKeys(source: KeySource, clock: () => number, isSure = always): KeyChecker {
  const byHash = cached<KnownKey>(
    CACHED_KEYS_MAX,
    async (hash) => {
      const known = await source.find(hash);
      return known && (isExpired(known) ? undefined : known);
    },
    ({ principal }) => principal.id,
  );
  source.onChange(({ table, id }) => {
    if (table !== "endpoints") byHash.changed(id);
  });

  function used(known: KnownKey | undefined): Principal | undefined {
    if (known === undefined || isExpired(known)) return undefined;
    const now = clock();
    if (known.usedAt !== null && now - known.usedAt >= KEY_USE_NOTED_MS) {
      known.usedAt = now;
      // A request never waits for this note, and a lost one is no harm.
      source.touch(known.principal.id, now).catch(() => {});
    }
    return known.principal;
  }

  function isExpired(known: KnownKey): boolean {
    return known.expiresAt !== null && known.expiresAt <= clock();
  }

  return {
    check(secret) {
      const hash = hashSecret(secret);
      const known = isSure() ? byHash.find(hash) : source.find(hash);
      return known instanceof Promise ? known.then(used) : used(known);
    },
  };
}

/** Who signed a URL: `k-<key id>`, or `e-<endpoint id>` for its workers. Undefined once that is revoked, expired or gone. */
export function createSignerFinder(source: KeySource, clock: () => number, isSure = always) {
  const bySigner = cached<KnownKey>(CACHED_KEYS_MAX, (signer) => source.findSigner(signer));
  source.onChange(({ table, id }) => {
    if (table !== "workers") bySigner.changed(`${table === "keys" ? "k" : "e"}-${id}`);
  });
  return async (signer: string): Promise<Principal | undefined> => {
    const known = await (isSure() ? bySigner.find(signer) : source.findSigner(signer));
    return known === undefined || (known.expiresAt !== null && known.expiresAt <= clock())
      ? undefined
      : known.principal;
  };
}

async function findKey(store: Store, hash: string): Promise<KnownKey | undefined> {
  return knownKey(await store.keys.findByHash(hash));
}

function knownKey(key: ApiKey | undefined): KnownKey | undefined {
  if (key === undefined) return undefined;
  const { id, name, scopes, environmentId, endpointId } = key;
  return {
    principal: { kind: "key", id, name, scopes, environmentId, endpointId },
    expiresAt: key.expiresAt,
    usedAt: key.lastUsedAt ?? Number.MIN_SAFE_INTEGER,
  };
}

async function findSession(store: Store, hash: string): Promise<KnownKey | undefined> {
  const session = await store.consoleSessions.findByHash(hash);
  const known = session && knownKey(await store.keys.find(session.keyId));
  if (session === undefined || known === undefined) return undefined;
  const { principal, expiresAt, usedAt } = known;
  return {
    principal: { ...principal, sessionId: session.id },
    expiresAt: Math.min(session.expiresAt, expiresAt ?? session.expiresAt),
    usedAt,
  };
}

async function findWorker(store: Store, hash: string): Promise<KnownKey | undefined> {
  const worker = await store.workers.findByToken(hash);
  if (worker === undefined || worker.state === "FAILED") return undefined;
  const endpoint = await store.endpoints.find(worker.endpointId);
  if (endpoint === undefined) return undefined;
  return { principal: workerOf(endpoint, worker.id), expiresAt: null, usedAt: null };
}

function workerOf({ id, environmentId }: Endpoint, workerId: string): Principal {
  return {
    kind: "worker",
    id: workerId,
    scopes: ["invoke"],
    environmentId: environmentId ?? NO_ENVIRONMENT,
    ofEndpoint: id,
  };
}
