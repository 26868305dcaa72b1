/**
 * The main job for real: starts an embedded platform on a free port with its data in `.demo/` (or SVC_DEMO_DIR), deploys
 * examples/text-analysis, calls every endpoint with curl on a real text and shows the answers. The platform stays.
 *
 *   node examples/demo.ts start | stop
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { runProcess } from "../src/lib/run-process.ts";

const root = path.resolve(import.meta.dirname, "..");
const example = path.join(root, "examples/text-analysis");
const demoDir = path.resolve(process.env.SVC_DEMO_DIR ?? path.join(root, ".demo"));
const dataDir = path.join(demoDir, "data");
const env: Record<string, string | undefined> = {
  ...process.env,
  SVC_DATA_DIR: dataDir,
  SVC_CONFIG_DIR: path.join(demoDir, "config"),
  PLATFORM_URL: undefined,
  PLATFORM_API_KEY: undefined,
};

interface DemoEndpoint {
  readonly name: string;
  readonly kind: string;
  readonly url: string;
  readonly routes: readonly string[];
}

class DemoError extends Error {}

/** Runs the CLI with its output on this terminal. */
function svc(...args: string[]): Promise<void> {
  console.log(`\n$ svc ${args.join(" ")}`);
  const child = spawn(path.join(root, "bin/svc"), args, { cwd: example, env, stdio: ["ignore", "inherit", "inherit"] });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new DemoError(`svc ${args.join(" ")} ended with exit code ${code}.`));
    });
  });
}

async function output(...args: string[]): Promise<string> {
  const result = await runProcess(path.join(root, "bin/svc"), args, { cwd: example, env });
  if (result.code !== 0) throw new DemoError(result.stderr);
  return result.stdout.trim();
}

/** Shows the command as a user would type it, runs it, shows the answer. */
async function curl(key: string, method: string, url: string, body?: unknown): Promise<void> {
  const data =
    body === undefined ? "" : ` -H "Content-Type: application/json" -d '${shellQuoted(JSON.stringify(body))}'`;
  const verb = method === "GET" || (method === "POST" && body !== undefined) ? "" : ` -X ${method}`;
  const command = `curl -sS --fail-with-body${verb} ${url} -H "Authorization: Bearer $PLATFORM_API_KEY"${data}`;
  console.log(`\n$ ${command}`);
  const result = await runProcess("sh", ["-c", command], { env: { ...process.env, PLATFORM_API_KEY: key } });
  console.log(pretty(result.stdout));
  if (result.code !== 0) throw new DemoError(`The call failed: ${result.stderr.trim()}`);
}

function shellQuoted(text: string): string {
  return text.replaceAll("'", "'\\''");
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function start(): Promise<void> {
  const running = await runProcess(path.join(root, "bin/svc"), ["platform", "status", "--json"], { env });
  if (running.code !== 0 || JSON.parse(running.stdout).running !== true) {
    await svc("platform", "start", "--emulate-gpu", "--port", "0", "--data-dir", dataDir);
  }
  await svc("deploy");
  const key = await output("whoami", "--show-key");
  const endpoints = JSON.parse(await output("status", "--json")) as DemoEndpoint[];
  const text = readFileSync(path.join(example, "text.txt"), "utf8").trim();
  console.log("\nexport PLATFORM_API_KEY=$(svc whoami --show-key)");
  for (const endpoint of endpoints) {
    if (endpoint.kind === "queue") await curl(key, "POST", `${endpoint.url}/runsync`, { input: { text } });
    for (const route of endpoint.routes) {
      const [method = "GET", routePath = "/"] = route.split(" ");
      await curl(key, method, `${endpoint.url}${routePath}`, method === "POST" ? { text } : undefined);
    }
  }
  console.log("\nThe platform is still running:");
  for (const { name, url } of endpoints) console.log(`  ${name.padEnd(12)}${url}`);
  console.log("Stop it with: make demo-stop");
}

async function stop(): Promise<void> {
  if (!existsSync(dataDir)) {
    console.log("No demo is running.");
    return;
  }
  await svc("platform", "stop", "--now", "--data-dir", dataDir);
  rmSync(demoDir, { recursive: true, force: true });
}

const command = process.argv[2];
try {
  if (command === "start") await start();
  else if (command === "stop") await stop();
  else throw new DemoError("Usage: demo.ts start | stop");
} catch (error) {
  if (!(error instanceof DemoError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
