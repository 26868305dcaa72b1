/**
 * key and environment → scan → may it? → build → plan → (refuse | nothing to do) → upload → deploy → wait → print.
 * What can be wrong without a build is found before it; nothing is uploaded before the plan is shown.
 */
import type { ControlPlane } from "../../client/control-plane.ts";
import type { AppRecord, Deployment, EndpointRecord } from "../../client/records.ts";
import { refuseProblems } from "../../client/refuse-problems.ts";
import { SvcError } from "../../domain/errors.ts";
import type { Manifest } from "../../domain/manifest.ts";
import { appFlag, command, envFlag, type FlagsOf, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { connectWithKey } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { buildDirectory, buildFlags } from "../deploy/build-directory.ts";
import { gitCommit } from "../deploy/git-commit.ts";
import { changesNothing, showPlan } from "../deploy/plan-view.ts";
import { requireProjectFolder, resolveTarget, type Target } from "../deploy/target.ts";
import { uploadLayers } from "../deploy/upload.ts";
import { waitReady } from "../deploy/wait-ready.ts";
import { deployedJson, showEndpoints } from "../endpoints-view.ts";

const GOES_ON = "The deployment goes on without this command. svc status shows it, svc rollback undoes it.";

const flags = {
  env: { ...envFlag, brief: "Environment; made when missing; default: the only one there is, or production" },
  app: appFlag,
  ...buildFlags,
  message: valueFlag("TEXT", "What is said of this build in svc rollback --list"),
  keepRemoved: switchFlag("Keep endpoints that the code no longer declares"),
  autoRollback: switchFlag("Make the build before live again when the new one cannot run"),
  detach: switchFlag("Do not wait until the endpoints take calls"),
  dryRun: switchFlag("Build and show what would change; change nothing"),
  force: switchFlag("Deploy also a home folder, /tmp or /"),
  preview: switchFlag("Run the build in local containers instead of deploying it"),
  json: jsonFlag,
};
type Flags = FlagsOf<typeof flags>;

export const deployCommand = command({
  brief: "Build this directory and put its endpoints live",
  text: "Builds, shows what will change, uploads what the platform lacks, and waits until every endpoint takes calls.",
  examples: [
    ["svc deploy", "Deploy to the only environment, or to production"],
    ["svc deploy --env staging", "Deploy to staging, making it when missing"],
    ["svc deploy --dry-run", "Show what would change"],
    ["svc deploy --auto-rollback", "In a pipeline: what cannot run does not stay"],
    ["svc deploy --exclude scipy", "Leave a package out of the artifact"],
    ["svc deploy --preview", "Try the build in containers of this machine until Ctrl+C"],
  ],
  flags,
  aliases: { e: "env", a: "app", o: "output", m: "message" },
  async run(flags) {
    await requireProjectFolder(this, flags.force);
    if (flags.preview) {
      const { preview } = await import("../preview/preview.ts");
      return preview(this, flags);
    }
    refuseTogether(flags);
    const { terminal } = this;
    // Loads while the platform is asked; the build itself reports what goes wrong.
    import("../../build/build.ts").catch(() => {});
    const { controlPlane } = await connectWithKey(this);
    const target = await resolveTarget(controlPlane, this.cwd, flags);
    const commit = gitCommit(this.cwd, this.env);
    const { keepRemoved, message } = flags;
    const { manifest, layers, env } = await buildDirectory(this, {
      ...flags,
      onScan: async (declared) => {
        const wanted = declared.map(({ name, settings, server, systemDependencies, imageSteps }) => {
          const { workersMax, imageName, networkVolumeId, instanceIds, gpuIds, gpuCount, hosts } = settings;
          const wishes = { serverPort: server?.port, systemDependencies, imageSteps };
          return { name, workersMax, imageName, networkVolumeId, instanceIds, gpuIds, gpuCount, hosts, ...wishes };
        });
        refuseProblems(await controlPlane.mayDeploy(target, wanted, keepRemoved));
      },
    });
    const { app, environment } = target;
    const input = { app, environment, manifest, env, keepRemoved, message, gitCommit: await commit };

    const { plan, app: record } = await controlPlane.planAndApp(input);
    const unchanged = changesNothing(plan) && !target.newEnvironment;
    if (flags.dryRun && flags.json) return terminal.json({ app, environment, ...plan });
    if (!unchanged) showPlan(terminal, target, plan);
    refuseProblems(plan.problems);
    if (flags.dryRun) {
      const nothing = `No changes: ${app}/${environment} already runs this code and these settings.`;
      return terminal.out(unchanged ? nothing : "Nothing was changed. svc deploy makes these changes.");
    }

    const live = liveIn(record, target);
    let deployment = live;
    // What keeps an endpoint from running may be gone by now, or be a layer that the platform has lost.
    const isAgain = plan.missingLayers.length > 0 || live.endpoints.some(({ status }) => status.state === "BLOCKED");
    if (!unchanged || isAgain) {
      this.interrupt.note = "Nothing was deployed. The next svc deploy goes on with what is uploaded.";
      await uploadLayers(terminal, controlPlane, layers, plan.missingLayers);
      this.interrupt.note = GOES_ON;
      deployment = await controlPlane.deployBuild(input);
    }
    this.interrupt.note = GOES_ON;
    if (flags.detach) return show(this, flags, { deployment, manifest, unchanged, endpoints: deployment.endpoints });
    try {
      // Also when nothing changed: an endpoint that cannot run must not look deployed.
      const endpoints = await waitReady(terminal, controlPlane, deployment);
      show(this, flags, { deployment, manifest, unchanged, endpoints });
    } catch (error) {
      const undo = flags.autoRollback && !unchanged && error instanceof SvcError && error.code === "BOOT_FAILED";
      if (!undo) throw error;
      throw await undone(this, controlPlane, live, error);
    }
  },
});

/** All that is wrong with the words themselves. */
function refuseTogether({ detach, autoRollback, dryRun }: Flags): void {
  const problems: string[] = [];
  if (detach && autoRollback)
    problems.push("--auto-rollback needs to see how the deploy ends, --detach leaves before.");
  if (dryRun && (detach || autoRollback))
    problems.push("--dry-run changes nothing: leave --detach and --auto-rollback out.");
  if (problems.length > 0) throw new SvcError("USAGE", problems.join("\n"));
}

/** What the user is told once the build that was live before is live again, or why it is not. */
async function undone(
  { terminal, interrupt }: CliContext,
  controlPlane: ControlPlane,
  before: Deployment,
  error: SvcError,
) {
  if (before.buildId === "") {
    return new SvcError(error.code, error.message, {
      help: "There is no build before this one. Correct it and run svc deploy again.",
    });
  }
  terminal.note(`The new build cannot run. Going back to ${before.buildId}.`);
  interrupt.note = "The build before is live again. svc status shows the state.";
  await waitReady(terminal, controlPlane, await controlPlane.rollback(before, before.buildId));
  return new SvcError(error.code, error.message.replace(/^Deployed, but/, "Rolled back:"), {
    help: `The build ${before.buildId} is live again. Correct what it says and run svc deploy again.`,
  });
}

interface Result {
  readonly deployment: Deployment;
  readonly manifest: Manifest;
  readonly unchanged: boolean;
  readonly endpoints: readonly EndpointRecord[];
}

function show({ terminal }: CliContext, flags: Flags, { deployment, manifest, unchanged, endpoints }: Result): void {
  const { app, environment, buildId, removed } = deployment;
  const place = `${app}/${environment}`;
  if (flags.json) {
    const described = endpoints.map((endpoint) => deployedJson(endpoint, manifest));
    terminal.json({ app, environment, buildId, changed: !unchanged, removed, endpoints: described });
  } else if (unchanged) {
    terminal.out(`No changes: ${place} already runs this code and these settings.`);
  } else if (flags.detach) {
    terminal.out(`${place} gets the build ${buildId}. svc status shows when it takes calls.`);
  } else {
    terminal.out(`Deployed ${place}.`);
    showEndpoints(terminal, endpoints, manifest);
  }
}

/** What is live, in the form of a deploy that changed nothing. */
function liveIn(app: AppRecord | null, target: Target): Deployment {
  const environment = app?.environments.find((candidate) => candidate.name === target.environment);
  return {
    app: target.app,
    environment: target.environment,
    buildId: environment?.buildId ?? "",
    endpoints: environment?.endpoints ?? [],
    removed: [],
  };
}
