/**
 * API keys and worker tokens: 256 random bits behind a prefix that names the kind. Only the SHA-256 is kept;
 * a plain hash is enough because the secret has full entropy.
 */
import { hash, randomBytes } from "node:crypto";

/** admin: everything · deploy: manage apps and endpoints · invoke: call endpoints · read: look only. */
export const KEY_SCOPES = ["admin", "deploy", "invoke", "read"] as const;
export type KeyScope = (typeof KEY_SCOPES)[number];

/** Who a request comes from. */
export interface Principal {
  readonly kind: "key" | "worker";
  readonly id: string;
  /** Of a key. */
  readonly name?: string;
  readonly scopes: readonly KeyScope[];
  /** A worker's token reaches only endpoints of its own environment; null means all. */
  readonly environmentId: string | null;
  /** The endpoint whose worker it is. */
  readonly ofEndpoint?: string;
  /** A key may reach one endpoint alone. */
  readonly endpointId?: string | null;
  /** The session of a console that the key is used through. */
  readonly sessionId?: string;
}

/** Finds the principal of a presented secret; undefined when it is unknown or expired. */
export interface KeyChecker {
  check(secret: string): Principal | undefined | Promise<Principal | undefined>;
}

export interface NewSecret {
  readonly secret: string;
  /** First characters, to recognise it in a list. */
  readonly prefix: string;
  readonly hash: string;
}

/** joinToken: lets a machine join; host: what its agent proves itself with from then on. */
const PREFIXES = { key: "svc_", worker: "svcw_", session: "svcc_", joinToken: "svch_", host: "svchs_" } as const;

export function newSecret(kind: keyof typeof PREFIXES): NewSecret {
  const secret = `${PREFIXES[kind]}${randomBytes(32).toString("base64url")}`;
  return { secret, prefix: secret.slice(0, 10), hash: hashSecret(secret) };
}

/** A key that was made elsewhere; undefined when it has another form than those that are made here. */
export function givenKey(text: string): NewSecret | undefined {
  return /^svc_[\w-]{43}$/.test(text) ? { secret: text, prefix: text.slice(0, 10), hash: hashSecret(text) } : undefined;
}

/** Whether it has the form of a key or token, whoever's it is. */
export function isSecret(text: string): boolean {
  return Object.values(PREFIXES).some((prefix) => text.startsWith(prefix));
}

export function hashSecret(secret: string): string {
  return hash("sha256", secret);
}

/** Every scope includes what is weaker: admin ⊃ deploy ⊃ read, admin ⊃ invoke. */
export function allows(principal: Principal, scope: KeyScope): boolean {
  const has = (s: KeyScope) => principal.scopes.includes(s);
  return has(scope) || has("admin") || (scope === "read" && has("deploy"));
}

/** What keeps the principal from the rest of the platform, in words; undefined for one that reaches all. */
export function boundTo({ kind, endpointId, environmentId }: Principal): string | undefined {
  if (kind === "worker") return "A worker's token reaches only the endpoints of its own environment";
  if (endpointId) return `This key is bound to the endpoint ${endpointId}`;
  return environmentId === null ? undefined : `This key is bound to the environment ${environmentId}`;
}

/** Whether what the principal may do, it may do to this endpoint. */
export function reaches(
  principal: Principal,
  endpoint: { readonly id: string; readonly environmentId: string | null },
): boolean {
  if (principal.endpointId) return principal.endpointId === endpoint.id;
  return principal.environmentId === null || principal.environmentId === endpoint.environmentId;
}

/** The secret of a request: `Authorization: Bearer KEY`, the bare key, or undefined. */
export function presentedSecret(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined;
  const secret = authorization.replace(/^Bearer(\s+|$)/i, "").trim();
  return secret === "" ? undefined : secret;
}
