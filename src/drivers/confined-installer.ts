/**
 * The platform's installer reads what an index sends. So it runs confined like a worker (`_runtime/confined_installer.py`): it sees
 * neither the platform's folders nor anybody's home, and what it writes stays in one folder. As root it is a user of its own.
 */
import { existsSync, readlinkSync, realpathSync } from "node:fs";
import path from "node:path";
import { type ProcessOptions, type ProcessResult, runProcess } from "../lib/run-process.ts";

export interface ConfinedInstallerOptions {
  /** Folder that holds the Python package `svc`. */
  readonly pythonPath: string;
  /** Folders of the platform and its users that it must not see. */
  readonly hidden: readonly string[];
  /** Who it is where the platform is root. */
  readonly uid: number | undefined;
}

/** One installation. */
export interface Room {
  /** The only one that keeps what is written. */
  readonly folder: string;
  /** In that folder. */
  readonly home: string;
  /** Of what is hidden: files and folders that it reads. */
  readonly named: readonly string[];
  /** Of the platform's user. */
  readonly userHome: string;
  /** Gets what the machine lacks to keep it apart, in words. */
  readonly onMissing: (what: string) => void;
}

export class ConfinedInstaller {
  readonly #options: ConfinedInstallerOptions;

  constructor(options: ConfinedInstallerOptions) {
    this.#options = options;
  }

  /** Runs a command like `runProcess`; `python` is an interpreter for the time before that. */
  async run(
    room: Room,
    python: string,
    command: string,
    args: readonly string[],
    options: ProcessOptions,
  ): Promise<ProcessResult> {
    const { pythonPath, hidden, uid } = this.#options;
    const { folder, home, named, userHome, onMissing } = room;
    const isPython = /^python/.test(path.basename(command));
    const file = realpathSync(command);
    const settings = {
      folder: realpathSync(folder),
      home: realpathSync(home),
      hidden,
      uid,
      python: isPython,
      paths: [
        ...(isPython ? [] : [file, ...shimsOf(file)]),
        ...named.filter((one) => !isAround(one, [...hidden, userHome])),
      ],
    };
    const wrapper = path.join(pythonPath, "svc", "_runtime", "confined_installer.py");
    const start = ["-I", "-S", wrapper, JSON.stringify(settings), isPython ? command : file, ...args];
    const result = await runProcess(isPython ? command : python, start, {
      ...options,
      cwd: "/",
      // For what is to be hidden; the command gets its own.
      env: { ...options.env, HOME: userHome },
      onLine: (line) => {
        const missing = /^\[svc\] installer: .*\bmissing: (.*)$/.exec(line)?.[1];
        if (missing !== undefined) onMissing(missing);
        else if (!line.startsWith(SAID)) options.onLine?.(line);
      },
    });
    return { ...result, stdout: result.stdout.replace(/^\[svc\] installer: .*\n/, "") };
  }
}

const SAID = "[svc] installer: ";

/** A setting that names such a folder would open what is in it. */
function isAround(folder: string, hidden: readonly string[]): boolean {
  const real = realpathSync(folder);
  return hidden.some((one) => {
    const within = path.relative(real, realOf(one));
    return !within.startsWith("..");
  });
}

/** Nothing is asked of a folder that is none of links: it may lie on a disk of another machine, which does not answer. */
function realOf(folder: string): string {
  try {
    readlinkSync(folder);
    return realpathSync(folder);
  } catch {
    const above = path.dirname(folder);
    return path.join(existsSync(above) ? realpathSync(above) : above, path.basename(folder));
  }
}

/** A version manager's command looks for the real one below the folder above. */
function shimsOf(file: string): string[] {
  const folder = path.dirname(file);
  return path.basename(folder) === "shims" ? [path.dirname(folder)] : [];
}
