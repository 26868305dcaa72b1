/**
 * Who a Pod is, by the token of its service account that Kubernetes mounts into it: signed by the API server, for this platform alone, and
 * bound to the Pod. The API server's public keys check it; any service account may read those, so the platform needs no rights for it.
 */
import { createPublicKey, type KeyObject, verify } from "node:crypto";
import { z } from "zod";
import { POD_KEYS_REST_MS, POD_TOKEN_MAX_BYTES } from "../domain/limits.ts";
import type { KubernetesApi } from "./api.ts";

export interface PodIdentity {
  readonly name: string;
  readonly uid: string;
}

interface PodTokensOptions {
  readonly api: Pick<KubernetesApi, "ask" | "namespace">;
  /** Whom the token is for: another platform's is of no use here. */
  readonly audience: string;
  /** The service account of the Pods. */
  readonly account: string;
  /** Seconds since the epoch. */
  readonly nowS: () => number;
}

const keys = z.object({ keys: z.array(z.looseObject({ kid: z.string(), kty: z.string() })) });
const header = z.object({ alg: z.enum(["RS256", "ES256"]), kid: z.string() });
const claims = z.object({
  aud: z.array(z.string()).or(z.string().transform((one) => [one])),
  exp: z.number(),
  nbf: z.number().optional(),
  "kubernetes.io": z.object({
    namespace: z.string(),
    pod: z.object({ name: z.string(), uid: z.string() }),
    serviceaccount: z.object({ name: z.string() }),
  }),
});

export class PodTokens {
  readonly #options: PodTokensOptions;
  #keys = new Map<string, KeyObject>();
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: PodTokensOptions) {
    this.#options = options;
  }

  /** Whether a text has the form of such a token. */
  static isOne(token: string): boolean {
    return token.length <= POD_TOKEN_MAX_BYTES && /^[\w-]+\.[\w-]+\.[\w-]+$/.test(token);
  }

  /** The Pod whose token it is, or why it is none, in words. Throws when the API server's keys cannot be read. */
  async podOf(token: string): Promise<PodIdentity | string> {
    const { api, audience, account, nowS } = this.#options;
    const [head = "", body = "", signature = ""] = token.split(".");
    const { data: form } = header.safeParse(decoded(head));
    if (form === undefined) return "its token is not one of Kubernetes";
    const key = await this.#key(form.kid);
    if (key === undefined) return "its token is signed by another cluster";
    const algorithm = form.alg === "RS256" ? "rsa" : "ec";
    if (key.asymmetricKeyType !== algorithm) return "its token's signature is of another kind than the key";
    const given = { key, ...(form.alg === "ES256" && { dsaEncoding: "ieee-p1363" as const }) };
    const isSigned = verify("sha256", Buffer.from(`${head}.${body}`), given, Buffer.from(signature, "base64url"));
    if (!isSigned) return "the signature of its token is wrong";
    const { data: said } = claims.safeParse(decoded(body));
    if (said === undefined) return "its token is not bound to a Pod";
    if (!said.aud.includes(audience)) return "its token is for somebody else";
    if (nowS() >= said.exp || nowS() < (said.nbf ?? 0)) return "its token has expired";
    const { namespace, pod, serviceaccount } = said["kubernetes.io"];
    if (namespace !== api.namespace || serviceaccount.name !== account)
      return "its token is of another service account";
    return pod;
  }

  async #key(id: string): Promise<KeyObject | undefined> {
    if (!this.#keys.has(id) && performance.now() - this.#readAt > POD_KEYS_REST_MS) {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    return this.#keys.get(id);
  }

  async #read(): Promise<void> {
    const found = keys.parse(await this.#options.api.ask("GET", "/openid/v1/jwks"));
    this.#keys = new Map(found.keys.map(({ kid, ...jwk }) => [kid, createPublicKey({ key: jwk, format: "jwk" })]));
    this.#readAt = performance.now();
  }
}

function decoded(part: string): unknown {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
  } catch {
    return undefined;
  }
}
