/** Scale to zero, let running work finish, delete: the order in which no call fails. */
import type { ControlPlane } from "../../client/control-plane.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { DRAIN_WAIT_MAX_MS } from "../../domain/limits.ts";
import { appFlag, command, endpointParameter, envFlag, type FlagsOf, jsonFlag, switchFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { endpointJson, endpointTable } from "../endpoints-view.ts";
import { unlessGone } from "../find-job.ts";
import { poll } from "../poll.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope, placeOf } from "../select-endpoints.ts";

const flags = {
  all: switchFlag("Remove all endpoints of the app"),
  force: switchFlag("Do not ask"),
  app: appFlag,
  env: { ...envFlag, brief: "Environment; default: every one of the app" },
  json: jsonFlag,
};
type Flags = FlagsOf<typeof flags>;

export const undeployCommand = command({
  brief: "List or remove endpoints",
  text: "Scales the endpoint to zero, lets running work finish, then deletes it. `svc undeploy list` shows every endpoint.",
  examples: [
    ["svc undeploy list", "Show every endpoint of the platform"],
    ["svc undeploy hello", "Remove one endpoint"],
    ["svc undeploy --all", "Remove all endpoints of this directory's app"],
    ["svc undeploy --all --app shop --env staging --force", "The same for a named environment, without a question"],
  ],
  flags,
  aliases: { f: "force", a: "app", e: "env" },
  parameters: [{ ...endpointParameter('Endpoint to remove, or "list"', ["list"]), optional: true }],
  async run(flags, name?: string) {
    checkUsage(flags, name);
    const { controlPlane } = await requirePlatform(this);
    const all = await controlPlane.endpoints();
    if (name === "list") return list(this, inScope(all, flags), flags.json);
    const targets = flags.all
      ? inScope(all, { app: detectedApp(this.cwd), ...given(flags) })
      : [endpointNamed(inScope(all, flags), name!, detectedApp(this.cwd))];
    if (targets.length === 0) return nothingToRemove(this, flags);
    if (flags.all && !flags.force && !(await agreed(this, targets))) {
      this.terminal.note("Nothing was removed.");
      return;
    }
    await removeAll(this, controlPlane, targets);
    const removed = targets.map(({ id, name, app, environment }) => ({ id, name, app, environment }));
    if (flags.json) return this.terminal.json({ removed });
    for (const endpoint of targets) this.terminal.out(`Removed ${endpoint.name} (${placeOf(endpoint)}).`);
  },
});

function checkUsage(flags: Flags, name: string | undefined): void {
  if (name === undefined && !flags.all) {
    throw new SvcError("USAGE", "Say what to remove.", {
      help: "svc undeploy ENDPOINT_NAME, svc undeploy --all, or svc undeploy list to see what there is.",
    });
  }
  if (name !== undefined && flags.all) {
    throw new SvcError("USAGE", `Give "${name}" or --all, not both.`, { help: "Run svc undeploy --help." });
  }
}

/** Only what was given, so that it can be laid over defaults. */
function given({ app, env }: Flags): { app?: string; env?: string } {
  return { ...(app === undefined ? {} : { app }), ...(env === undefined ? {} : { env }) };
}

async function list({ terminal }: CliContext, endpoints: readonly EndpointRecord[], json = false): Promise<void> {
  if (json) return terminal.json(endpoints.map(endpointJson));
  if (endpoints.length === 0) return terminal.note("No endpoints are deployed here.");
  await endpointTable(terminal, endpoints);
}

function nothingToRemove(context: CliContext, flags: Flags): void {
  if (flags.json) {
    context.terminal.json({ removed: [] });
    return;
  }
  const app = flags.app ?? detectedApp(context.cwd);
  const place = flags.env === undefined ? `The app "${app}"` : `The environment "${flags.env}" of the app "${app}"`;
  context.terminal.out(`${place} has no endpoints. svc undeploy list shows every endpoint.`);
}

async function agreed({ terminal }: CliContext, targets: readonly EndpointRecord[]): Promise<boolean> {
  terminal.note(`To be removed (${targets.length}):`);
  for (const endpoint of targets) terminal.note(`  ${endpoint.name} (${placeOf(endpoint)})`);
  if (!terminal.interactive) {
    throw new SvcError("USAGE", "svc undeploy --all asks before it removes anything, and nobody can be asked here.", {
      help: "Add --force to remove them without a question.",
    });
  }
  return terminal.confirm("Remove these endpoints?", false);
}

async function removeAll(
  { terminal }: CliContext,
  controlPlane: ControlPlane,
  targets: readonly EndpointRecord[],
): Promise<void> {
  const left = new Set(targets.map((endpoint) => endpoint.name));
  const progress = await terminal.progress(`Finishing running work: ${[...left].join(", ")}`);
  try {
    const removals = await Promise.allSettled(
      targets.map(async (endpoint) => {
        // Somebody else may remove it meanwhile: that is what was wanted.
        await unlessGone(removeOne(controlPlane, endpoint));
        left.delete(endpoint.name);
        if (left.size > 0) progress.update(`Finishing running work: ${[...left].join(", ")}`);
      }),
    );
    const [failed] = removals.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    if (failed !== undefined) throw failed.reason;
  } finally {
    progress.done();
  }
}

async function removeOne(controlPlane: ControlPlane, { id, name }: EndpointRecord): Promise<void> {
  await controlPlane.saveEndpoint({ id, workersMin: 0, workersMax: 0 });
  const drained = await poll(DRAIN_WAIT_MAX_MS, async () => {
    const now = await controlPlane.endpoint(id);
    return now === null || now.pods.every((pod) => pod.state === "FAILED") ? true : undefined;
  });
  if (drained === undefined) {
    throw new SvcError("WORKERS_NOT_ZERO", `The endpoint "${name}" takes no new calls but still runs old ones.`, {
      help: `Run svc undeploy ${name} again later.`,
    });
  }
  await controlPlane.deleteEndpoint(id);
}
