/**
 * `svc run`: the local server. Functions run on live endpoints of a platform, each call on the newest code that builds.
 *
 *   files ──watch──▶ code ──build──▶ provisioner ──deploy──▶ live endpoints
 *                                                                 ▲ │ logs
 *   caller ──HTTP──▶ server ─▶ calls ─▶ pass through ─────────────┘ ▼
 *                                                             call view
 */
import type { ServerResponse } from "node:http";
import { hostname } from "node:os";
import type { LayersBuild } from "../build/build-layers.ts";
import { formatDiagnostic } from "../build/diagnostics.ts";
import { Administration } from "../client/administration.ts";
import type { ControlPlane } from "../client/control-plane.ts";
import { CONNECTION_END_MAX_MS } from "../domain/limits.ts";
import { isLoopback } from "../lib/loopback.ts";
import { plainAnswer } from "../lib/proxy.ts";
import { autoProvision } from "./auto-provision.ts";
import { CallLogs } from "./call-logs.ts";
import { CallView } from "./call-view.ts";
import { Calls, sendError } from "./calls.ts";
import { ProjectCode } from "./code.ts";
import type { Debugging } from "./debug.ts";
import { answerOwnPage, type DocsChange, docsPage } from "./docs-page.ts";
import { listen } from "./listen.ts";
import { type LivePlace, liveEnvironment, liveName, userName } from "./live.ts";
import { LogFollow } from "./log-follow.ts";
import { Narrator, problemText } from "./narrator.ts";
import { OpenToken } from "./open-token.ts";
import { openApiDocument } from "./openapi.ts";
import { PassThrough } from "./pass-through.ts";
import { possiblePeers } from "./peers.ts";
import { PlatformWatch } from "./platform-watch.ts";
import { type LiveEndpoint, Provisioner } from "./provisioner.ts";
import { type ProvisionedEndpoints, ResourcesMemory, readResources } from "./resources-file.ts";
import { showRoutes } from "./route-table.ts";
import type { Screen } from "./screen.ts";
import { watchProject } from "./watch.ts";

export interface SessionOptions {
  readonly projectDir: string;
  readonly app: string;
  readonly host: string;
  readonly port: number;
  readonly reload: boolean;
  readonly autoProvision: boolean;
  /** Has an endpoint wait for a debugger. */
  readonly debug?: Debugging;
  /** Live endpoints stay when it closes. */
  readonly keep: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cacheDir: string;
  readonly configDir: string;
  readonly python: string | undefined;
  readonly screen: Screen;
  readonly controlPlane: ControlPlane;
  /** Looks for the platform again after it went away. */
  readonly findPlatform: () => Promise<ControlPlane | undefined>;
}

export interface Session {
  readonly port: number;
  /** With the token that callers need; empty when only this machine reaches the server. */
  readonly openAddresses: readonly string[];
  readonly place: LivePlace;
  /** Rejects when the project's folder is there no more. */
  readonly gone: Promise<never>;
  /** Removes the live endpoints that this session made, unless they are to be kept. */
  close(): Promise<LeftBehind>;
}

/** Names of live endpoints. */
export interface LeftBehind {
  readonly stay: readonly string[];
  readonly removed: readonly string[];
}

/** Throws what stands in the way of a first build, WRONG_KEY, PORT_IN_USE. */
export async function startSession(options: SessionOptions): Promise<Session> {
  // A wrong key must not let the server look healthy.
  await options.controlPlane.account();
  const parts = await assemble(options);
  const earlier = await liveNames(options.controlPlane, parts.place, []);
  try {
    return await open(options, { ...parts, keep: options.keep || earlier.length > 0 });
  } catch (error) {
    parts.close();
    throw error;
  }
}

interface Parts {
  readonly place: LivePlace;
  readonly gone: Promise<never>;
  readonly code: ProjectCode;
  readonly platform: PlatformWatch;
  readonly provisioner: Provisioner;
  readonly calls: Calls;
  readonly resources: ResourcesMemory;
  readonly known: ProvisionedEndpoints;
  /** Told of every build, for open pages of the explorer. */
  readonly pages: { readonly listeners: Set<(change: DocsChange) => void>; newest: DocsChange };
  readonly callLogs: CallLogs;
  /** Shows what the endpoint prints. */
  follow(name: string, live: LiveEndpoint): Promise<void>;
  close(): void;
}

async function assemble({ projectDir, screen, host, app, ...options }: SessionOptions): Promise<Parts> {
  const environment = liveEnvironment({ user: userName(), host: hostname(), projectDir });
  const place = { app, environment };
  const narrator = new Narrator(screen);
  const view = new CallView(screen, projectDir);
  const pages: Parts["pages"] = { listeners: new Set(), newest: {} };
  const tellPages = (change: DocsChange) => {
    pages.newest = change;
    for (const tell of pages.listeners) tell(change);
  };
  const callLogs = new CallLogs();
  const { endpoints: known, problem } = await readResources(projectDir);
  if (problem !== undefined) screen.warn(problem);
  const resources = new ResourcesMemory(projectDir, known);

  const platform = new PlatformWatch({
    controlPlane: options.controlPlane,
    find: options.findPlatform,
    onLost: (url) => narrator.platformLost(url),
    onBack: (url) => {
      provisioner.forgetAll();
      logs.stopAll();
      narrator.platformBack(url);
    },
  });
  const logs = new LogFollow(
    (name, line) => {
      view.line(name, line);
      callLogs.line(name, line);
    },
    () => platform.lost(),
  );
  const gone = Promise.withResolvers<never>();
  gone.promise.catch(() => {}); // Who waits for the end hears of it.
  const peersOf = (build: LayersBuild) => possiblePeers(build, projectDir);
  const provisioner = new Provisioner(() => platform.controlPlane, place, peersOf, {
    onProgress: (name, text) => narrator.progress(name, text),
    onLive: (name, record, ...how) => {
      narrator.live(name, record, ...how);
      void logs.follow(platform.controlPlane.platform, record.id, name);
    },
  });
  const code = new ProjectCode({
    ...options,
    adjust: options.debug?.adjust,
    projectDir,
    onProgress: (text) => narrator.progress("", text),
    onBuilt: (build, before) => {
      if (before !== undefined) narrator.built(calls.routesOf(before), calls.routesOf(build));
      tellPages({});
      provisioner.update(build).catch((error: unknown) => narrator.notUpdated(error));
    },
    onFailed: (error) => {
      narrator.broken(error);
      tellPages({ problem: problemText(error, false) });
    },
    onGone: gone.reject,
  });
  const through = new PassThrough();
  const onUse = async (name: string, live: LiveEndpoint) => {
    await logs.follow(platform.controlPlane.platform, live.record.id, name);
    void resources.keep(place, platform.controlPlane.platform.url, provisioner).catch(() => {});
  };
  const calls = new Calls({
    code,
    provisioner,
    platform,
    through,
    host,
    onUse,
    show: (call) => view.call(call),
    logs: callLogs,
  });
  const close = () => {
    platform.close();
    logs.stopAll();
    code.close();
    through.close();
  };
  return {
    place,
    gone: gone.promise,
    code,
    platform,
    provisioner,
    calls,
    resources,
    known,
    pages,
    callLogs,
    follow: onUse,
    close,
  };
}

/** First build, server, watcher, table, and with --auto-provision the endpoints. */
async function open(options: SessionOptions, parts: Parts & { readonly keep: boolean }): Promise<Session> {
  const { host, screen } = options;
  const { code, calls, pages, place, platform, provisioner } = parts;
  const stopping = new AbortController();
  const first = await code.start();
  for (const warning of first.warnings) screen.note(formatDiagnostic(warning, screen.errColors.isColorSupported));
  const token = isLoopback(host) ? undefined : new OpenToken();
  const docs = docsPage({
    asksForToken: token !== undefined,
    document: () => openApiDocument({ title: options.app, endpoints: code.current.scan.endpoints }),
    onChange: (listener) => {
      pages.listeners.add(listener);
      return () => pages.listeners.delete(listener);
    },
    newest: () => pages.newest,
    callLines: (id) => parts.callLogs.read(id, stopping.signal),
    signal: stopping.signal,
  });
  const server = await listen({
    host,
    port: options.port,
    onBusy: (message) => screen.note(message),
    onRequest: (req, res) => {
      if (refused(() => token?.check(req, res), res)) return;
      if (!answerOwnPage(req, res, host, docs)) void calls.answer(req, res);
    },
    onUpgrade: (req, socket, head) => {
      socket.on("error", () => socket.destroy());
      if (
        !refused(
          () => token?.check(req),
          () => plainAnswer(req, socket, CONNECTION_END_MAX_MS),
        )
      )
        void calls.upgrade(req, socket, head);
    },
  });
  const isLeftOut = (relative: string) => code.isLeftOut(relative);
  const watcher = options.reload ? watchProject(options.projectDir, isLeftOut, () => void code.refresh()) : undefined;
  await showRoutes(screen, calls.routesOf(first));
  if (options.autoProvision) {
    await autoProvision(first, provisioner, platform.controlPlane, parts.known, screen);
    await parts.resources.keep(place, platform.controlPlane.platform.url, provisioner);
  }
  if (options.debug !== undefined) {
    const live = await provisioner.ensure(first, options.debug.name);
    await parts.follow(options.debug.name, live);
    for (const line of await options.debug.ready()) screen.out(line);
  }
  return {
    port: server.port,
    openAddresses: token?.addresses(host, server.port) ?? [],
    place,
    gone: parts.gone,
    close: async () => {
      stopping.abort();
      calls.stop();
      await watcher?.close();
      await server.close();
      parts.close();
      try {
        const left = await liveNames(platform.controlPlane, place, [...provisioner.live.keys()].map(liveName));
        if (parts.keep || left.length === 0) return { stay: left, removed: [] };
        const administration = new Administration(platform.controlPlane.platform);
        // With its endpoint gone no other worker takes the place of the debugged one.
        return await administration.deleteEnvironment(place).then(
          (removed) => ({ stay: [], removed }),
          () => ({ stay: left, removed: [] }),
        );
      } finally {
        options.debug?.close();
      }
    },
  };
}

/** Answers with what `check` throws. */
function refused(check: () => void, res: ServerResponse | (() => ServerResponse)): boolean {
  try {
    check();
    return false;
  } catch (error) {
    sendError(typeof res === "function" ? res() : res, error);
    return true;
  }
}

/** All live endpoints of the place; what this session knows of when the platform cannot be asked. */
async function liveNames(controlPlane: ControlPlane, place: LivePlace, known: readonly string[]): Promise<string[]> {
  try {
    const app = await controlPlane.app(place.app);
    const environment = app?.environments.find(({ name }) => name === place.environment);
    return (environment?.endpoints ?? []).map(({ name }) => name);
  } catch {
    return [...known];
  }
}
