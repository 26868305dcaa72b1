/**
 * Thousands of endpoints, deployed as a user's are: one project, built once, becomes live in many apps, which share its layer.
 * Their first starts, one worker each to show that the code runs, are left out: they are deployed without workers, and what they
 * would have shown is written into the database of the stopped platform.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { buildProject, type ProjectBuild } from "../src/build/build.ts";
import { ControlPlane } from "../src/client/control-plane.ts";
import { DATABASE_FILE } from "../src/store/platform-database.ts";
import type { BenchPlatform } from "./processes.ts";

const AT_ONCE = 4;
const PER_PROJECT = 100;

type Reached = Pick<BenchPlatform, "url" | "key">;

/** A project's folder, built as `svc deploy` builds it and sent to the platform; gone with `remove`. */
export function project(platform: Reached) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const controlPlane = new ControlPlane({ url: platform.url, apiKey: platform.key });
  const [projectDir, cacheDir, configDir] = ["project", "cache", "config"].map((name) => path.join(dir, name));
  return {
    controlPlane,
    /** The worker file says this now: what of it the platform lacks is sent. */
    async send(text: string): Promise<ProjectBuild> {
      mkdirSync(projectDir!, { recursive: true });
      writeFileSync(path.join(projectDir!, "worker.py"), text);
      const where = { projectDir: projectDir!, cacheDir: cacheDir!, configDir: configDir! };
      const build = await buildProject({ ...where, env: process.env });
      for (const layer of build.layers) await controlPlane.uploadLayer(layer.digest, layer.path);
      return build;
    },
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

/** Deploys `count` endpoints that may have one worker each, and restarts the platform. Resolves their URLs. */
export async function deployMany(platform: BenchPlatform, count: number): Promise<string[]> {
  const urls = await deployApps(platform, count);
  await platform.restart(() => haveShown(platform));
  return urls;
}

/** Deploys `count` endpoints without workers. Resolves their URLs. */
export async function deployApps(platform: Reached, count: number): Promise<string[]> {
  const perProject = Math.min(PER_PROJECT, count);
  const { controlPlane, send, remove } = project(platform);
  try {
    const { manifest } = await send(declarations(perProject));
    const apps = Array.from({ length: Math.ceil(count / perProject) }, (_, n) => `many-${n}`);
    const urls: string[] = [];
    const deployNext = async () => {
      for (let app = apps.pop(); app !== undefined; app = apps.pop()) {
        const { endpoints } = await controlPlane.deployBuild({ app, environment: "production", manifest });
        urls.push(...endpoints.map(({ url }) => url));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, deployNext));
    return urls;
  } finally {
    remove();
  }
}

function declarations(count: number): string {
  const each = (_: unknown, n: number) =>
    `@Endpoint(name="idle-${n}", workers=(0, 0), idle_timeout=5)\ndef f${n}(n: int = 1):\n    return n\n`;
  return `from svc import Endpoint\n\n${Array.from({ length: count }, each).join("\n")}`;
}

function haveShown(platform: BenchPlatform): void {
  const database = new DatabaseSync(path.join(platform.dataDir, DATABASE_FILE));
  try {
    const environments = "SELECT e.id FROM environments e JOIN apps a ON a.id = e.app_id WHERE a.name LIKE 'many-%'";
    database.exec(`UPDATE endpoints SET workers_max = 1 WHERE environment_id IN (${environments})`);
    database.exec(`UPDATE builds SET verdict = 'ready' WHERE environment_id IN (${environments})`);
  } finally {
    database.close();
  }
}
