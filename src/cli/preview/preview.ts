/**
 * `svc deploy --preview`: the build in containers of this machine, until Ctrl+C.
 *
 *   engine → leftovers of killed previews → build → claim → network → local ports → platform → deploy → ready → logs
 *
 * From the claim on every step says how it is undone before the next begins. Ctrl+C, a failure half-way and the platform's
 * own end all lead to the same undoing; a second Ctrl+C kills and leaves the rest to the next preview.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { ProjectBuild } from "../../build/build.ts";
import { ControlPlane } from "../../client/control-plane.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { refuseProblems } from "../../client/refuse-problems.ts";
import { SvcError } from "../../domain/errors.ts";
import { PREVIEW_STOP_MAX_MS } from "../../domain/limits.ts";
import type { Manifest } from "../../domain/manifest.ts";
import type { CliContext } from "../context.ts";
import { type BuildFlags, buildDirectory } from "../deploy/build-directory.ts";
import { uploadLayers } from "../deploy/upload.ts";
import { waitReady } from "../deploy/wait-ready.ts";
import { cacheDir } from "../paths.ts";
import { appOf, checkName } from "../project-settings.ts";
import { claimPreview } from "./claim.ts";
import { type Engine, type Network, openEngine } from "./engine.ts";
import { type Fronts, openFronts } from "./fronts.ts";
import { requireImages } from "./images.ts";
import { removeLeftovers } from "./leftovers.ts";
import { PreviewLogs } from "./logs.ts";
import { lastWords, platformKeys, startPreviewPlatform } from "./platform.ts";
import { showPreview } from "./show.ts";

interface PreviewFlags extends BuildFlags {
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

const ENVIRONMENT_DEFAULT = "preview";

export async function preview(context: CliContext, flags: PreviewFlags): Promise<void> {
  const app = appOf(context.cwd, flags.app);
  const environment = flags.env === undefined ? ENVIRONMENT_DEFAULT : checkName(flags.env, "--env");
  const engine = await openEngine(context.env);
  await removeLeftovers(context.terminal, engine, cacheDir(context.env));
  let standIns: Readonly<Record<string, string>> = {};
  const build = await buildDirectory(context, {
    ...flags,
    onScan: async (endpoints) => {
      standIns = await requireImages(engine, context, endpoints);
    },
  });
  const started = await new Preview(context, { ...flags, app, environment, standIns }, engine, build).run();
  if (!started) context.interrupt.end();
}

interface Place {
  readonly app: string;
  readonly environment: string;
  readonly json?: boolean;
  /** Keys of its platform. */
  readonly standIns: Readonly<Record<string, string>>;
}

class Preview {
  readonly #context: CliContext;
  readonly #place: Place;
  readonly #engine: Engine;
  readonly #build: ProjectBuild;
  readonly #undo = new Undo();
  readonly #stopped = new AbortController();
  /** Of the platform, once there is one. */
  #stop: () => Promise<void> = async () => {};
  #kill: () => void = () => {};

  constructor(context: CliContext, place: Place, engine: Engine, build: ProjectBuild) {
    this.#context = context;
    this.#place = place;
    this.#engine = engine;
    this.#build = build;
  }

  /** Until it is asked to stop. False: that was before the endpoints took calls. */
  async run(): Promise<boolean> {
    const { terminal, interrupt } = this.#context;
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    const unclaim = interrupt.claim((again) => (again ? this.#killAll() : ask()));
    const started = this.#start();
    started.catch(() => {});
    try {
      const platform = await Promise.race([started, asked]);
      if (platform === undefined) {
        this.#stopped.abort();
        void this.#stop();
        // What it is about to make must be undone too; the platform's end ends it.
        await Promise.race([started.catch(() => {}), delay(PREVIEW_STOP_MAX_MS, undefined, { ref: false })]);
        return false;
      }
      await Promise.race([asked.then(() => this.#stopped.abort()), platform.ended]);
      if (!this.#stopped.signal.aborted) throw await platformGone(platform.dataDir);
      return true;
    } finally {
      const progress = await terminal.progress("Removing the preview");
      const failures = await this.#undo.run();
      progress.done(failures.length === 0 ? "Removed the preview." : undefined);
      for (const failure of failures) terminal.warn(`${(failure as Error).message} The next preview tries again.`);
      unclaim();
    }
  }

  /** Resolves when every endpoint takes calls. */
  async #start(): Promise<{ readonly ended: Promise<void>; readonly dataDir: string }> {
    const { terminal, env } = this.#context;
    const { app, environment, json, standIns } = this.#place;
    const { manifest } = this.#build;
    const { signal } = this.#stopped;
    const undo = this.#undo;

    const claim = await claimPreview(cacheDir(env));
    undo.add(claim.release);
    signal.throwIfAborted();
    undo.add(() => this.#engine.removePreview(claim.id));
    const network = await this.#engine.createNetwork(claim);
    signal.throwIfAborted();
    const fronts = await openFronts(terminal, app, manifest, network);
    undo.add(() => fronts.close());
    signal.throwIfAborted();

    const names = Object.keys(manifest.resources);
    const keys = { ...platformKeys(claim, network, names), ...standIns };
    const platform = await startPreviewPlatform({ dataDir: claim.folder, env, keys }, ({ stop, kill }) => {
      this.#stop = stop;
      this.#kill = kill;
      undo.add(stop);
    });
    signal.throwIfAborted();
    const controlPlane = new ControlPlane({ url: platform.url, apiKey: platform.apiKey });
    const print = json ? (line: string) => terminal.note(line) : (line: string) => terminal.out(line);
    const logs = new PreviewLogs(json ? terminal.errColors : terminal.colors, print);
    undo.add(() => logs.stop());
    try {
      const endpoints = await this.#deploy(
        controlPlane,
        { app, environment, manifest, env: this.#build.env },
        (deployed) => {
          logs.follow(controlPlane.platform, deployed);
          for (const { name, url } of deployed) fronts.of(name).connect({ url, apiKey: platform.apiKey });
        },
      );
      signal.throwIfAborted();
      showPreview(terminal, this.#place, endpoints, manifest, (name) => fronts.portOf(name));
    } finally {
      logs.show();
    }
    void this.#warnOfFirewall(claim.id, network, fronts);
    return { ended: platform.ended, dataDir: claim.folder };
  }

  async #deploy(
    controlPlane: ControlPlane,
    input: { app: string; environment: string; manifest: Manifest; env: ProjectBuild["env"] },
    onDeployed: (endpoints: readonly EndpointRecord[]) => void,
  ): Promise<readonly EndpointRecord[]> {
    const { terminal } = this.#context;
    const own = { ...input, manifest: alwaysOneWorker(input.manifest) };
    const plan = await controlPlane.planBuild(own);
    refuseProblems(plan.problems);
    await uploadLayers(terminal, controlPlane, this.#build.layers, plan.missingLayers);
    const deployment = await controlPlane.deployBuild(own);
    onDeployed(deployment.endpoints);
    return waitReady(terminal, controlPlane, deployment, {
      failed: "An endpoint of the preview cannot run.",
      help: "Correct what it says and run svc deploy --preview again.",
    });
  }

  /** Calls between endpoints come in from the containers' network, which firewalls know nothing of. */
  async #warnOfFirewall(id: string, { gateway, subnet }: Network, fronts: Fronts): Promise<void> {
    const [name] = Object.keys(this.#build.manifest.resources);
    const reached = await this.#engine.canReach(id, gateway, fronts.portOf(name!)).catch(() => true);
    if (reached || this.#stopped.signal.aborted) return;
    const { terminal } = this.#context;
    terminal.warn(`Containers cannot reach this machine at ${gateway}; endpoints cannot call each other.`);
    terminal.note(`  A firewall is in the way. Let ${subnet} in: sudo ufw allow from ${subnet}`);
  }

  #killAll(): void {
    this.#kill();
    this.#context.interrupt.note = "Killed. The next svc deploy --preview removes what is left.";
    this.#context.interrupt.end();
  }
}

/** One container for each endpoint from the start: its worker stays when it is idle. */
function alwaysOneWorker(manifest: Manifest): Manifest {
  const resources = Object.entries(manifest.resources).map(([name, resource]) => {
    return [
      name,
      { ...resource, workersMin: Math.max(resource.workersMin, Math.min(1, resource.workersMax)) },
    ] as const;
  });
  return { ...manifest, resources: Object.fromEntries(resources) };
}

async function platformGone(dataDir: string): Promise<SvcError> {
  return new SvcError("PLATFORM_UNREACHABLE", "The preview's platform has ended.", { help: await lastWords(dataDir) });
}

/** What was started and must go again, in reverse. Every step runs, whatever the others do. */
class Undo {
  readonly #steps: (() => unknown)[] = [];

  add(step: () => unknown): void {
    this.#steps.push(step);
  }

  /** Resolves with what went wrong. */
  async run(): Promise<readonly unknown[]> {
    const failures: unknown[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    return failures;
  }
}
