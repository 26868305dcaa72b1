/**
 * Load-balanced calls that carry no key of the platform: of routes that are open to everybody. A key that is sent is always
 * checked, also there; another Authorization goes to the function.
 */
import type { IncomingMessage } from "node:http";
import type { Principal } from "../domain/api-key.ts";
import { ALL_ROUTES, PublicRoutes } from "../domain/public-routes.ts";
import { ClientAddress } from "../lib/client-address.ts";
import type { Endpoint } from "../store/store.ts";
import { requireOneAuthorization } from "./authenticate.ts";
import { PublicRate } from "./public-rate.ts";
import type { Target } from "./target.ts";

/** What of a call without a key its worker must know. */
export interface OpenCall {
  /** The routes it may reach; undefined: all. */
  readonly publicRoutes: string | undefined;
}

/** A caller that may call the endpoint. */
export interface Admitted {
  readonly endpoint: Endpoint;
  /** What it proved itself with; "" without a key. */
  readonly secret: string;
  readonly principal: Principal;
  readonly open?: OpenCall;
}

interface OpenCallsDeps {
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly settings: { readonly publicCallsMax?: number; readonly trustedProxies?: readonly string[] };
  readonly monotonic?: () => number;
}

/** Whoever it is, it may do nothing more. */
const ANYBODY: Principal = { kind: "key", id: "", scopes: [], environmentId: "" };

export class OpenCalls {
  readonly #deps: OpenCallsDeps;
  readonly #addresses: ClientAddress;
  readonly #rate: PublicRate;
  readonly #routes = new WeakMap<Endpoint, PublicRoutes>();

  constructor(deps: OpenCallsDeps) {
    const { publicCallsMax = 0, trustedProxies = [] } = deps.settings;
    this.#deps = deps;
    this.#addresses = new ClientAddress(trustedProxies);
    this.#rate = new PublicRate(publicCallsMax, deps.monotonic ?? (() => performance.now()));
  }

  /** Undefined: the call needs a key. Throws RATE_LIMITED, and BAD_INPUT for several Authorization headers. */
  async admit(req: IncomingMessage, target: Target, method: string): Promise<Admitted | undefined> {
    const endpoint = await this.#deps.endpoints.find(target.endpointId);
    if (endpoint === undefined || endpoint.kind !== "load-balanced" || endpoint.publicRoutes === "") return undefined;
    if (!this.#routesOf(endpoint).mayReach(method, target.path)) return undefined;
    requireOneAuthorization(req);
    this.#rate.take(endpoint.id, this.#addresses.of(req));
    const publicRoutes = endpoint.publicRoutes === ALL_ROUTES ? undefined : endpoint.publicRoutes;
    return { endpoint, secret: "", principal: ANYBODY, open: { publicRoutes } };
  }

  #routesOf(endpoint: Endpoint): PublicRoutes {
    let routes = this.#routes.get(endpoint);
    if (routes === undefined) {
      routes = new PublicRoutes(endpoint.publicRoutes);
      this.#routes.set(endpoint, routes);
    }
    return routes;
  }
}
