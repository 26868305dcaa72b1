/** What happened: deploys, and who did what. */
import type { DeployRecord } from "../../store/records.ts";
import type { RequestContext } from "../context.ts";
import { type PageWish, pageOf, readPage } from "../pages.ts";

interface Span {
  readonly from?: number | null;
  readonly to?: number | null;
}

type DeploysArguments = PageWish & { readonly app?: string | null; readonly environment?: string | null };

/** Of the environments that the key sees. */
export async function deploys({ app, environment, ...wish }: DeploysArguments, context: RequestContext) {
  const { first, before } = readPage(wish);
  const filter = {
    environmentId: context.principal.environmentId ?? undefined,
    app: app ?? undefined,
    environment: environment ?? undefined,
  };
  const rows = await context.store.deploys.list(filter, first + 1, before);
  const { shown, next } = pageOf(rows, first, ({ id }) => id);
  return { deploys: shown.map(asDeploy), next };
}

function asDeploy({ verdict, ...deploy }: DeployRecord) {
  return { ...deploy, verdict: verdict.state, reason: verdict.reason, verdictAt: verdict.at };
}

type AuditArguments = PageWish & Span & { readonly action?: string | null };

export async function auditLog({ from, to, action, ...wish }: AuditArguments, context: RequestContext) {
  const { first, before } = readPage(wish);
  const filter = { from: from ?? undefined, to: to ?? undefined, action: action ?? undefined };
  const rows = await context.store.audit.list(filter, first + 1, before);
  const { shown, next } = pageOf(rows, first, ({ id }) => id);
  return { entries: shown.map((entry) => ({ ...entry, id: String(entry.id) })), next };
}
