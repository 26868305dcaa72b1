/** Machines that joined, and the tokens that let further ones in. A key that is bound to a place sees what belongs to that. */
import { boundTo, newSecret, reaches } from "../../domain/api-key.ts";
import type { Share } from "../../domain/capacity.ts";
import { SvcError } from "../../domain/errors.ts";
import { HOST_NAME, HOST_NAME_RULE, type HostState, type LiveHost, WORKER_PORT_HELP } from "../../domain/host.ts";
import { JOIN_TOKEN_MAX_S, JOIN_TOKEN_S, JOIN_TOKENS_MAX } from "../../domain/limits.ts";
import type { HostRow, HostTokenRow } from "../../store/hosts.ts";
import type { Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { randomId } from "../ids.ts";
import { placeOf } from "../visible-endpoints.ts";
import { gpuMemoryGb } from "./capacity.ts";

/** By name. */
export async function hosts(_args: unknown, context: RequestContext) {
  const rows = await context.store.hosts.list();
  if (rows.length === 0) return [];
  const live = new Map(context.hosts.hosts().map((host) => [host.id, host]));
  const workers = await visibleWorkers(context);
  return Promise.all(rows.map((row) => shown(row, live.get(row.id), workers, context)));
}

async function visibleWorkers({ store, loader, principal }: RequestContext) {
  const isBound = boundTo(principal) !== undefined;
  const [rows, found] = await Promise.all([store.workers.list(), loader.endpoints()]);
  const endpoints = new Map(found.filter((one) => reaches(principal, one)).map((one) => [one.id, one]));
  const byId = new Map(rows.map((row) => [row.id, { row, endpoint: endpoints.get(row.endpointId) }]));
  return { isBound, byId };
}

type VisibleWorkers = Awaited<ReturnType<typeof visibleWorkers>>;

async function shown(
  row: HostRow,
  live: LiveHost | undefined,
  { isBound, byId }: VisibleWorkers,
  context: RequestContext,
) {
  const { secretHash: _secret, ...facts } = row;
  const machine = live?.machine;
  const inUse = isBound ? undefined : live?.inUse;
  const held = (live?.workers ?? []).filter(({ worker }) => !isBound || byId.get(worker)?.endpoint !== undefined);
  const sum = (of: (share: Share) => number) => held.reduce((total, { share }) => total + of(share), 0);
  return {
    ...facts,
    state: stateOf(row, live),
    since: Math.round(live?.since ?? row.lastSeenAt),
    vcpu: machine && { total: machine.vcpus, promised: sum((share) => share.vcpus), used: inUse?.vcpus ?? null },
    memoryGb: machine && {
      total: machine.memoryGb,
      promised: sum((share) => share.memoryGb),
      used: inUse?.memoryGb ?? null,
    },
    gpus: (machine?.gpus ?? []).map(({ product }, index) => {
      const worker = held.find(({ share }) => share.gpus.includes(index))?.worker;
      const endpoint = worker === undefined ? undefined : byId.get(worker)?.endpoint;
      const memoryGb = gpuMemoryGb(product);
      const gpu = inUse?.gpus.find((one) => one.index === index);
      const used = { busy: gpu?.busy ?? null, usedGb: gpu?.memoryGb ?? null };
      return { ...used, index, name: product, memoryGb, endpoint: endpoint?.id ?? null, workerId: worker ?? null };
    }),
    workers: await Promise.all(
      held.map(async ({ worker, share }) => {
        const { row: known, endpoint } = byId.get(worker) ?? {};
        const place = endpoint && (await placeOf(endpoint, context.loader));
        return {
          id: worker,
          endpointId: endpoint?.id ?? "",
          endpoint: endpoint?.name ?? "",
          ...{ app: null, environment: null, ...place },
          state: known?.state ?? "STARTING",
          since: known?.createdAt ?? null,
          vcpu: share.vcpus,
          memoryGb: share.memoryGb,
          gpus: share.gpus.length,
        };
      }),
    ),
    problems: isBound ? [] : (live?.problems ?? []),
  };
}

function stateOf({ draining }: HostRow, live: LiveHost | undefined): HostState {
  if (live?.connected !== true) return "away";
  return draining ? "draining" : "joined";
}

/** Throws NOT_FOUND. */
export async function knownHost(store: Pick<Store, "hosts">, name: string): Promise<HostRow> {
  const found = (await store.hosts.list()).find((host) => host.name === name);
  if (found !== undefined) return found;
  throw new SvcError("NOT_FOUND", `No host "${name}" has joined.`, { help: "svc host list shows those that have." });
}

interface DrainInput {
  readonly name: string;
  readonly on: boolean;
}

/** Running workers go on until they are not needed; no further one is started there. */
export async function drainHost({ name, on }: DrainInput, context: RequestContext) {
  await context.store.transaction(async (store) => {
    const { id } = await knownHost(store, name);
    await store.hosts.setDraining(id, on);
    await audit(store, context, { action: on ? "host.drain" : "host.undrain", target: `${name} (${id})` });
  });
  const found = (await hosts({}, context)).find((host) => host.name === name);
  if (found === undefined) throw new SvcError("NOT_FOUND", `The host "${name}" was removed meanwhile.`);
  return found;
}

export async function removeHost({ name }: { readonly name: string }, context: RequestContext): Promise<boolean> {
  return context.store.transaction(async (store) => {
    const { id } = await knownHost(store, name);
    await store.hosts.remove(id);
    await audit(store, context, { action: "host.remove", target: `${name} (${id})` });
    return true;
  });
}

interface TokenInput {
  readonly name?: string | null;
  readonly expiresInSeconds?: number | null;
  readonly reusable?: boolean | null;
}

/** The secret is in this answer and nowhere else. Throws CONFLICT where no machine can join. */
export async function createHostToken({ input }: { readonly input: TokenInput }, context: RequestContext) {
  const name = input.name?.trim() ?? "";
  const reusable = input.reusable ?? false;
  const seconds = input.expiresInSeconds ?? JOIN_TOKEN_S;
  const problems = [...tokenProblems({ name, reusable, seconds })];
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join(" "));
  const port = context.workerPort();
  if (port === undefined) {
    throw new SvcError("CONFLICT", "No machine can join this platform: it has no port for that.", {
      help: WORKER_PORT_HELP,
    });
  }
  const { secret, hash } = newSecret("joinToken");
  const createdAt = context.clock();
  const id = randomId(context.random);
  const { id: createdBy } = context.principal;
  const expiresAt = createdAt + seconds * 1000;
  const times = { expiresAt, createdAt, usedAt: null, revokedAt: null };
  const token: HostTokenRow = { id, tokenHash: hash, name, reusable, ...times, createdBy };
  await context.store.transaction(async (store) => {
    const open = (await store.hosts.listTokens()).filter((one) => tokenState(one, createdAt) === "open");
    if (open.length >= JOIN_TOKENS_MAX) {
      throw new SvcError("CONFLICT", `There are ${open.length} join tokens already.`, { help: "Revoke some." });
    }
    await store.hosts.createToken(token);
    const detail = `${reusable ? "reusable, " : ""}until ${new Date(expiresAt).toISOString()}`;
    await audit(store, context, { action: "host.token.create", target: tokenNamed(token), detail });
  });
  return { token, secret, url: context.config.publicUrl(), fingerprint: port.fingerprint, port: port.port };
}

function* tokenProblems({ name, reusable, seconds }: { name: string; reusable: boolean; seconds: number }) {
  if (name !== "" && !HOST_NAME.test(name)) yield `"${name}" cannot be the name of a host: ${HOST_NAME_RULE}.`;
  if (name !== "" && reusable) yield "A token for a host of one name lets in one: leave out the name, or reusable.";
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > JOIN_TOKEN_MAX_S) {
    yield `A join token is good for 1 second to ${JOIN_TOKEN_MAX_S / 86_400} days.`;
  }
}

function tokenNamed({ id, name }: HostTokenRow): string {
  return name === "" ? id : `${name} (${id})`;
}

/** Newest first. */
export const hostTokens = (_args: unknown, { store }: RequestContext) => store.hosts.listTokens();

export async function revokeHostToken({ id }: { readonly id: string }, context: RequestContext): Promise<boolean> {
  return context.store.transaction(async (store) => {
    const token = (await store.hosts.listTokens()).find((one) => one.id === id);
    if (token === undefined) {
      throw new SvcError("NOT_FOUND", `There is no join token "${id}".`, { help: "svc host token list shows them." });
    }
    if (!(await store.hosts.revokeToken(id, context.clock()))) return true;
    await audit(store, context, { action: "host.token.revoke", target: tokenNamed(token) });
    return true;
  });
}

/** Fields of the type HostToken that are not columns. */
export const hostTokenFields = {
  state: (token: HostTokenRow, _args: unknown, { clock }: RequestContext) => tokenState(token, clock()),
  async createdBy({ createdBy }: HostTokenRow, _args: unknown, { store }: RequestContext) {
    return (await store.keys.find(createdBy))?.name ?? createdBy;
  },
};

function tokenState({ revokedAt, usedAt, reusable, expiresAt }: HostTokenRow, now: number) {
  if (revokedAt !== null) return "revoked";
  if (usedAt !== null && !reusable) return "used";
  return expiresAt !== null && now >= expiresAt ? "expired" : "open";
}
