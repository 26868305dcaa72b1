/**
 * `svc run --debug`: one endpoint on one worker that a debugger attaches to, without time limits. Its worker's side is
 * python/src/svc/_runtime/process/debugger.py.
 */
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import type { EndpointDeclaration } from "../build/endpoint-declaration.ts";
import { normalizedName, parseRequirement } from "../build/requirement.ts";
import { SvcError } from "../domain/errors.ts";
import {
  DEBUG_PORT_DEFAULT,
  DEBUGGER_ANSWER_MAX_MS,
  EXECUTION_TIMEOUT_MAX_MS,
  POLL_FIRST_MS,
  REQUEST_TIMEOUT_MAX_MS,
} from "../domain/limits.ts";
import { DebugLink, type Talk } from "./debug-link.ts";
import { DEBUG_VARIABLE } from "./live.ts";

export class Debugging {
  readonly #projectDir: string;
  readonly #port: number;
  readonly #link: DebugLink;
  readonly #hasTerminal: boolean;
  #name: string | undefined;

  /** Without a name: the only endpoint there is. `talk`: of a terminal, for breakpoints; undefined without one. */
  static async begin(projectDir: string, name: string | undefined, talk: Talk | undefined): Promise<Debugging> {
    const [port, link] = await Promise.all([freePort(), DebugLink.open(talk)]);
    return new Debugging(projectDir, name, { port, link, hasTerminal: talk !== undefined });
  }

  private constructor(
    projectDir: string,
    name: string | undefined,
    { port, link, hasTerminal }: { port: number; link: DebugLink; hasTerminal: boolean },
  ) {
    this.#projectDir = projectDir;
    this.#name = name;
    this.#port = port;
    this.#link = link;
    this.#hasTerminal = hasTerminal;
  }

  /** Ends the worker, also where it waits at a breakpoint. */
  close(): void {
    this.#link.close();
  }

  get name(): string {
    return this.#name!;
  }

  /** The endpoints with the one that is debugged as it then has to be. Throws USAGE when it is not clear which. */
  readonly adjust = (endpoints: readonly EndpointDeclaration[]): EndpointDeclaration[] => {
    const names = endpoints.map(({ name }) => name);
    if (this.#name === undefined && names.length === 1) this.#name = names[0];
    if (this.#name === undefined || !names.includes(this.#name)) throw unclear(this.#name, names);
    const debug = JSON.stringify({ port: this.#port, project: this.#projectDir, run: this.#link.address });
    return endpoints.map((each) => {
      if (each.name !== this.#name) return each;
      const has = each.dependencies.some((text) => parseRequirement(text)?.name === normalizedName("debugpy"));
      return {
        ...each,
        dependencies: has ? each.dependencies : [...each.dependencies, "debugpy"],
        env: { ...each.env, [DEBUG_VARIABLE]: debug },
        settings: {
          ...each.settings,
          workersMax: 1,
          executionTimeoutMs: EXECUTION_TIMEOUT_MAX_MS,
          requestTimeoutMs: REQUEST_TIMEOUT_MAX_MS,
        },
      };
    });
  };

  /** Resolves when the worker's debugger answers, with what the developer is told. Throws BOOT_FAILED when it never does. */
  async ready(): Promise<string[]> {
    const deadline = performance.now() + DEBUGGER_ANSWER_MAX_MS;
    // Not by connecting: that would be a client, and its end the end of the debugging.
    while ((await tryPort(this.#port)) !== undefined) {
      if (performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, POLL_FIRST_MS));
      else throw this.#silent();
    }
    const file = ".vscode/launch.json";
    const kept = await keepLaunch(path.join(this.#projectDir, file), this.#launch());
    return [
      `The debugger of ${this.name} is at localhost:${this.#port} (Debug Adapter Protocol). breakpoint() ${this.#hasTerminal ? "stops there, or else here with a prompt" : "waits for it"}.`,
      kept
        ? `In VS Code start "${this.#launch().name}" under Run and Debug; ${file} has it. Attach again after a save.`
        : `${file} cannot be extended without changing what is in it. Add to its configurations:\n${JSON.stringify(this.#launch(), null, 2)}`,
    ];
  }

  #launch() {
    return {
      name: `svc: ${this.name}`,
      type: "debugpy",
      request: "attach",
      connect: { host: "localhost", port: this.#port },
      justMyCode: true,
    };
  }

  #silent(): SvcError {
    return new SvcError("BOOT_FAILED", `The debugger of "${this.name}" does not answer at localhost:${this.#port}.`, {
      help: "--debug needs a platform on this machine that runs workers as processes (SVC_DRIVER=process). svc logs has what the worker said.",
    });
  }
}

function unclear(name: string | undefined, names: readonly string[]): SvcError {
  const what = name === undefined ? "--debug needs to know which endpoint." : `There is no endpoint "${name}".`;
  return new SvcError("USAGE", what, { help: `One of: ${names.join(", ")}. For example: svc run --debug ${names[0]}` });
}

type Launch = Record<string, unknown> & { readonly name: string };

/** Adds the configuration to VS Code's file, in place of an earlier one of its name. False: the file is not plain JSON, and stays as it is. */
export async function keepLaunch(file: string, launch: Launch): Promise<boolean> {
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return false;
  }
  const content = contentOf(text);
  const configurations = content?.configurations ?? [];
  if (content === undefined || !Array.isArray(configurations)) return false;
  const at = configurations.findIndex((one: Partial<Launch> | null) => one?.name === launch.name);
  const changed = at < 0 ? [...configurations, launch] : configurations.with(at, launch);
  const indent = /^[ \t]+/m.exec(text)?.[0] ?? "  ";
  const next = `${JSON.stringify({ version: "0.2.0", ...content, configurations: changed }, null, indent)}\n`;
  if (next === text) return true;
  try {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, next);
    return true;
  } catch {
    return false;
  }
}

/** Undefined for what is no JSON object: with comments, it would lose them. */
function contentOf(text: string): { readonly configurations?: unknown } | undefined {
  if (text.trim() === "") return {};
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === "object" && content !== null && !Array.isArray(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

/** The usual one, or another where it is taken. */
async function freePort(): Promise<number> {
  return (await tryPort(DEBUG_PORT_DEFAULT)) ?? (await tryPort(0))!;
}

/** Undefined when somebody has it. */
function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const { port: found } = server.address() as { port: number };
      server.close(() => resolve(found));
    });
  });
}
