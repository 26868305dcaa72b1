/**
 * Load-balanced calls that carry no key of the platform: by signed URLs, and of routes that are open to everybody. A key or a
 * signature that is sent is always checked, also there; another Authorization goes to the function.
 */
import type { IncomingMessage } from "node:http";
import type { KeyScope, Principal } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { ALL_ROUTES, PublicRoutes } from "../domain/public-routes.ts";
import { checkSigned, SIGNATURE } from "../domain/signed-url.ts";
import type { ClientAddress } from "../lib/client-address.ts";
import type { CalledEndpoint } from "../store/store.ts";
import { authorise, requireOneAuthorization } from "./authenticate.ts";
import type { PublicRateTaker } from "./public-rate.ts";
import type { Target } from "./target.ts";

/** What of a call without a key its worker must know. */
export interface OpenCall {
  /** The routes it may reach; undefined: all. */
  readonly publicRoutes: string | undefined;
  /** Of a signed URL, without the signature. */
  readonly signedQuery?: string;
}

export interface Signing {
  /** Each of them holds. */
  readonly keys: readonly Uint8Array[];
  /** The principal behind a signer; undefined once it is revoked, expired or gone. */
  readonly find: (signer: string) => Promise<Principal | undefined>;
}

/** A caller that may call the endpoint. */
export interface Admitted {
  readonly endpoint: CalledEndpoint;
  /** What it proved itself with; "" without a key. */
  readonly secret: string;
  readonly principal: Principal;
  readonly open?: OpenCall;
}

interface OpenCallsDeps {
  readonly endpoints: { find(id: string): CalledEndpoint | undefined | Promise<CalledEndpoint | undefined> };
  readonly addresses: ClientAddress;
  readonly publicRate: PublicRateTaker;
  readonly now: () => number;
  readonly signing?: Signing;
}

const CALL: readonly KeyScope[] = ["invoke"];

/** Whoever it is, it may do nothing more. */
const ANYBODY: Principal = { kind: "key", id: "", scopes: [], environmentId: "" };

export class OpenCalls {
  readonly #deps: OpenCallsDeps;
  readonly #routes = new WeakMap<CalledEndpoint, PublicRoutes>();

  constructor(deps: OpenCallsDeps) {
    this.#deps = deps;
  }

  /**
   * Undefined: the call needs a key. Throws RATE_LIMITED, WRONG_SIGNATURE, URL_EXPIRED, and BAD_INPUT for several
   * Authorization headers.
   */
  async admit(req: IncomingMessage, target: Target, method: string): Promise<Admitted | undefined> {
    const { signing } = this.#deps;
    if (signing !== undefined && target.query.includes(SIGNATURE))
      return this.#admitSigned(req, target, method, signing);
    const endpoint = await this.#deps.endpoints.find(target.endpointId);
    if (endpoint === undefined || endpoint.kind !== "load-balanced" || endpoint.publicRoutes === "") return undefined;
    if (!this.#routesOf(endpoint).mayReach(method, target.path)) return undefined;
    requireOneAuthorization(req);
    await this.#deps.publicRate.take(endpoint.id, this.#deps.addresses.of(req));
    const publicRoutes = endpoint.publicRoutes === ALL_ROUTES ? undefined : endpoint.publicRoutes;
    return { endpoint, secret: "", principal: ANYBODY, open: { publicRoutes } };
  }

  async #admitSigned(req: IncomingMessage, target: Target, method: string, signing: Signing): Promise<Admitted> {
    const { signer, query } = checkSigned(signing.keys, { ...target, method }, this.#deps.now());
    const principal = await signing.find(signer);
    const endpoint = await this.#deps.endpoints.find(target.endpointId);
    if (principal === undefined || endpoint === undefined) {
      const gone = principal === undefined ? "the key that signed it is revoked or expired" : "its endpoint is gone";
      throw new SvcError("WRONG_SIGNATURE", `This signed URL is not valid: ${gone}.`, { help: "Ask for a new one." });
    }
    requireOneAuthorization(req);
    authorise(principal, endpoint, CALL);
    return { endpoint, secret: "", principal: ANYBODY, open: { publicRoutes: undefined, signedQuery: query } };
  }

  #routesOf(endpoint: CalledEndpoint): PublicRoutes {
    let routes = this.#routes.get(endpoint);
    if (routes === undefined) {
      routes = new PublicRoutes(endpoint.publicRoutes);
      this.#routes.set(endpoint, routes);
    }
    return routes;
  }
}
