/** `svc deploy --preview` as a child process, as a person at a terminal has it, and what the engine has of it. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { stripVTControlCharacters } from "node:util";
import { wantedPorts } from "../../src/cli/preview/fronts.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { isOwnPort } from "../free-port.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { project, tempDir } from "./platform.ts";

/** A load-balanced and a queue-based endpoint; the first calls the second. */
export const SHOP = {
  "calc.py": `import sys
from svc import Endpoint

@Endpoint(name="double")
def double(number: int):
    print("doubling", number)
    print("to stderr", file=sys.stderr)
    return number * 2
`,
  "web.py": `import json, urllib.request
from svc import Endpoint
from calc import double

print("web was imported")
api = Endpoint(name="api")

@api.get("/health")
def health(): return {"status": "ok"}

@api.post("/echo/{times}")
def echo(times: int, text: str): return text * times

@api.post("/by-name")
def by_name(url: str, body: dict):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)

@api.post("/by-function")
def by_function(number: int): return {"doubled": double(number)}

@api.websocket("/talk")
async def talk(socket):
    async for message in socket:
        await socket.send("back " + message)
`,
};

/** A project and the cache folder that its previews keep their things in. */
export interface Place {
  readonly cwd: string;
  readonly cache: string;
}

/** Of one project. */
const PREVIEWS_AT_ONCE = 2;

export function place(t: TestContext, files: Record<string, string> = SHOP): Place {
  return { cwd: project(t, files, nameWithOwnPorts()), cache: tempDir(t) };
}

/** A name whose ports, and the next ones, nothing that runs at the same time takes. */
function nameWithOwnPorts(): string {
  for (;;) {
    const name = `shop-${randomBytes(4).toString("hex")}`;
    const ports = [...wantedPorts(name, ["api", "double"]).values()];
    if (ports.every((port) => isOwnPort(port) && isOwnPort(port + PREVIEWS_AT_ONCE * ports.length))) return name;
  }
}

/** What previews keep in the cache folder. */
export function foldersOf({ cache }: Place): string[] {
  const previews = path.join(cache, "previews");
  return existsSync(previews) ? readdirSync(previews) : [];
}

export async function assertNothingLeft(place: Place): Promise<void> {
  assert.deepEqual(await engineHas(place), { containers: 0, networks: 0 });
  assert.deepEqual(foldersOf(place), []);
}

const SAID_MAX_MS = 120_000;

export interface Preview {
  readonly child: ChildProcess;
  /** What it printed so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves when stdout or stderr has it; rejects when the preview ends before. */
  said(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with the printed URL of each endpoint when all take calls. */
  ready(): Promise<Readonly<Record<string, string>>>;
  /** Resolves with the exit code. */
  ended(): Promise<number | null>;
  /** Ctrl+C, and then the end. */
  interrupt(): Promise<number | null>;
}

/** Whatever happens, nothing of it outlives the test. */
export function startPreview(
  t: TestContext,
  { cwd, cache }: Place,
  options: { args?: readonly string[]; env?: Readonly<Record<string, string>> } = {},
): Preview {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, SVC_CACHE_DIR: cache, NO_COLOR: "1" };
  const args = [PROGRAM, "deploy", "--preview", ...(options.args ?? [])];
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const texts = { stdout: "", stderr: "" };
  const changed = new EventTarget();
  for (const name of ["stdout", "stderr"] as const) {
    child[name]!.setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
      changed.dispatchEvent(new Event("change"));
    });
  }
  const exit = once(child, "close").then(([code]) => {
    changed.dispatchEvent(new Event("change"));
    return code as number | null;
  });
  const all = () => `${stripVTControlCharacters(texts.stdout)}\n${texts.stderr}`;
  const said: Preview["said"] = (pattern) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(all());
        if (match === null && !hasEnded(child) && !late.aborted) return;
        changed.removeEventListener("change", look);
        late.removeEventListener("abort", look);
        if (match !== null) resolve(match);
        else {
          const what = late.aborted ? "was silent" : "ended";
          reject(new Error(`The preview ${what} without ${pattern}:\n${all()}\n${platformLogs(cache)}`));
        }
      };
      const late = AbortSignal.timeout(SAID_MAX_MS);
      late.addEventListener("abort", look);
      changed.addEventListener("change", look);
      look();
    });
  const preview: Preview = {
    child,
    stdout: () => texts.stdout,
    stderr: () => texts.stderr,
    said,
    ready: async () => {
      await said(/^Ctrl\+C ends the preview and removes everything\.$/m);
      const pairs = [...texts.stdout.matchAll(/^ {2}(http:\/\/localhost:\d+)\n {4}([\w-]+)/gm)];
      return Object.fromEntries(pairs.map(([, url, name]) => [name, url]));
    },
    ended: () => exit,
    interrupt: () => {
      child.kill("SIGINT");
      return exit;
    },
  };
  t.after(async () => {
    if (hasEnded(child)) return;
    child.kill("SIGINT");
    await exit;
  });
  return preview;
}

/** What the platforms of the previews there said, for a failure's message. */
function platformLogs(cache: string): string {
  const logs = globSync(path.join(cache, "previews", "*", "*.log"));
  return logs.map((file) => `${file}:\n${readFileSync(file, "utf8")}`).join("\n");
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** How many containers and networks the engine has of the previews of a place. */
export async function engineHas({ cache }: Place): Promise<{ containers: number; networks: number }> {
  const count = async (...args: string[]) => {
    const format = '{{.Label "svc.preview.owner"}}';
    const { stdout } = await runProcess("docker", [...args, "--filter", "label=svc.preview", "--format", format]);
    return stdout.split("\n").filter((owner) => owner.startsWith(`${cache}/`)).length;
  };
  return { containers: await count("ps", "--all"), networks: await count("network", "ls") };
}
