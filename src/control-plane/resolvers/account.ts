import { boundTo, reaches } from "../../domain/api-key.ts";
import { CONSOLE_LINK_MS } from "../../domain/limits.ts";
import { isRemoved } from "../../domain/removal.ts";
import { VERSION } from "../../domain/version.ts";
import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { endpoint } from "./endpoints.ts";
import { networkVolumes } from "./network-volumes.ts";
import { registryAuths } from "./registry-auths.ts";
import { templates } from "./templates.ts";

/** A platform is one account, and has no users. */
export const ACCOUNT_ID = "svc";

/** What belongs to the whole platform: a key that is bound to a part of it sees none. */
function unlessBound<T>(list: (args: unknown, context: RequestContext) => Promise<T[]>) {
  return (_: unknown, args: unknown, context: RequestContext): Promise<T[]> =>
    boundTo(context.principal) === undefined ? list(args, context) : Promise.resolve([]);
}

/** The account of the key: a platform is one account. */
export const account = {
  async endpoints(_: unknown, _args: unknown, { store, principal }: RequestContext) {
    const endpoints = await store.endpoints.list();
    return endpoints.filter((endpoint) => !isRemoved(endpoint) && reaches(principal, endpoint));
  },
  /** One's own machines have no prices, so there is nothing to discount. */
  serverlessDiscount: () => ({ discountFactor: 1, type: "NONE", expirationDate: "" }),
  keys(_: unknown, _args: unknown, context: RequestContext) {
    requireScope(context, "admin");
    return context.store.keys.list();
  },
  id: () => ACCOUNT_ID,
  email: () => "",
  pubKey: () => "",
  clientBalance: () => 0,
  currentSpendPerHr: () => 0,
  spendLimit: () => 0,
  notifyPodsStale: () => false,
  notifyPodsGeneral: () => false,
  notifyLowBalance: () => false,
  networkVolumes: unlessBound(networkVolumes),
  podTemplates: unlessBound(templates),
  containerRegistryCreds: unlessBound(registryAuths),
  pods: () => [],
  endpoint: (_: unknown, args: { id: string }, context: RequestContext) => endpoint(args, context),
  workersQuota: (_: unknown, _args: unknown, { config }: RequestContext) => config.workerQuota,
  version: () => VERSION,
  notices: (_: unknown, _args: unknown, { notices }: RequestContext) => notices(),
};

/** The code stands behind the #: it reaches no log of the platform or of a proxy. */
export function createConsoleLink(_args: object, { principal, openConsole, config, clock }: RequestContext) {
  const code = openConsole(principal);
  return { url: `${config.publicUrl()}/console/login#${code}`, expiresAt: clock() + CONSOLE_LINK_MS };
}
