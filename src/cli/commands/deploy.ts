/**
 * key and environment → build → plan → (refuse | nothing to do) → upload → deploy → wait → print.
 * What can be wrong without a build is found before it; nothing is uploaded before the plan is shown.
 */
import type { AppRecord, Deployment } from "../../client/records.ts";
import { refuseProblems } from "../../client/refuse-problems.ts";
import { appFlag, command, envFlag, jsonFlag, switchFlag } from "../command.ts";
import { connectWithKey } from "../connect.ts";
import { buildDirectory, buildFlags } from "../deploy/build-directory.ts";
import { changesNothing, showPlan } from "../deploy/plan-view.ts";
import { resolveTarget, type Target } from "../deploy/target.ts";
import { uploadLayers } from "../deploy/upload.ts";
import { waitReady } from "../deploy/wait-ready.ts";
import { deployedJson, showEndpoints } from "../endpoints-view.ts";

const GOES_ON = "The deployment goes on without this command. svc status shows it, svc rollback undoes it.";

export const deployCommand = command({
  brief: "Build this directory and put its endpoints live",
  text: "Builds, shows what will change, uploads what the platform lacks, and waits until every endpoint takes calls.",
  examples: [
    ["svc deploy", "Deploy to the only environment, or to production"],
    ["svc deploy --env staging", "Deploy to staging, making it when missing"],
    ["svc deploy --exclude scipy", "Leave a package out of the artifact"],
    ["svc deploy --preview", "Try the build in containers of this machine until Ctrl+C"],
  ],
  flags: {
    env: { ...envFlag, brief: "Environment; made when missing; default: the only one there is, or production" },
    app: appFlag,
    ...buildFlags,
    preview: switchFlag("Run the build in local containers instead of deploying it"),
    keepRemoved: switchFlag("Keep endpoints that the code no longer declares"),
    json: jsonFlag,
  },
  aliases: { e: "env", a: "app", o: "output" },
  async run(flags) {
    if (flags.preview) {
      const { preview } = await import("../preview/preview.ts");
      return preview(this, flags);
    }
    const { terminal } = this;
    // Loads while the platform is asked; the build itself reports what goes wrong.
    import("../../build/build.ts").catch(() => {});
    const { controlPlane } = await connectWithKey(this);
    const target = await resolveTarget(controlPlane, this.cwd, flags);
    const { manifest, layers, env } = await buildDirectory(this, flags);
    const input = { app: target.app, environment: target.environment, manifest, env, keepRemoved: flags.keepRemoved };

    const { plan, app } = await controlPlane.planAndApp(input);
    const unchanged = changesNothing(plan) && !target.newEnvironment;
    if (!unchanged) showPlan(terminal, target, plan);
    refuseProblems(plan);

    let deployment: Deployment;
    if (unchanged) {
      deployment = deployed(app, target);
    } else {
      this.interrupt.note = "Nothing was deployed. The next svc deploy goes on with what is uploaded.";
      await uploadLayers(terminal, controlPlane, layers, plan.missingLayers);
      this.interrupt.note = GOES_ON;
      deployment = await controlPlane.deployBuild(input);
    }
    this.interrupt.note = GOES_ON;
    // Also when nothing changed: an endpoint that cannot run must not look deployed.
    const endpoints = await waitReady(terminal, controlPlane, deployment);

    if (flags.json) {
      const { app, environment, buildId, removed } = deployment;
      const changed = !unchanged;
      terminal.json({
        app,
        environment,
        buildId,
        changed,
        removed,
        endpoints: endpoints.map((e) => deployedJson(e, manifest)),
      });
      return;
    }
    const place = `${deployment.app}/${deployment.environment}`;
    terminal.out(unchanged ? `No changes: ${place} already runs this code and these settings.` : `Deployed ${place}.`);
    showEndpoints(terminal, endpoints, manifest);
  },
});

/** What is live, in the form of a deploy that changed nothing. */
function deployed(app: AppRecord | null, target: Target): Deployment {
  const environment = app?.environments.find((candidate) => candidate.name === target.environment);
  return {
    app: target.app,
    environment: target.environment,
    buildId: environment?.buildId ?? "",
    endpoints: environment?.endpoints ?? [],
    removed: [],
  };
}
