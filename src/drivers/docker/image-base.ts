/** What an image is built on: found, pulled, or imported from a root file system. */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { PassThrough, type Readable } from "node:stream";
import { SvcError } from "../../domain/errors.ts";
import { askPython } from "../../python/version.ts";
import { type Engine, engineWords, followed } from "./engine.ts";
import type { ImageShelf } from "./image-facts.ts";

/** An image, or a root file system as a folder or a tar file; undefined: the base that the Dockerfile names. */
export type BaseChoice = { readonly image: string } | { readonly rootfs: string } | undefined;

interface Base {
  /** It is on this machine. */
  readonly name: string;
  /** Takes away what was made for this build only; an image built on it keeps its layers. */
  forget(): Promise<void>;
}

interface BaseOptions {
  readonly engine: Engine;
  readonly shelf: ImageShelf;
  /** Text of the Dockerfile. */
  readonly dockerfile: string;
  /** The interpreter for which builds are made: a command. */
  readonly python: string;
  readonly report: (line: string) => void;
}

/** Throws IMAGE_MISSING, IMAGE_UNSUITABLE and USAGE. */
export async function findBase(choice: BaseChoice, options: BaseOptions): Promise<Base> {
  const { engine, shelf, report } = options;
  if (choice !== undefined && "rootfs" in choice) return importBase(engine, choice.rootfs, report);
  const name = choice?.image ?? (await usualBase(options));
  try {
    await shelf.find([name]);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "IMAGE_MISSING") throw error;
    report(`pulling ${name}`);
    await pullBase(engine, name);
  }
  return { name, forget: async () => {} };
}

/** The Dockerfile's own; a plain Python in the version of this machine, for which builds are made. */
async function usualBase({ dockerfile, python }: BaseOptions): Promise<string> {
  const name = /^ARG BASE=(\S+)$/m.exec(dockerfile)![1]!;
  if (!name.startsWith("python:")) return name;
  const local = await askPython(python).catch(() => undefined);
  return local && "version" in local ? `python:${local.version}-slim` : name;
}

async function pullBase(engine: Engine, name: string): Promise<void> {
  try {
    await followed(await engine.pull(name));
  } catch (error) {
    throw new SvcError(
      "IMAGE_MISSING",
      `The base image ${name} is not on this machine and cannot be pulled: ${engineWords(error)}.`,
      { help: "Name another with --base, or give a root file system that has python3 with --rootfs." },
    );
  }
}

async function importBase(engine: Engine, rootfs: string, report: (line: string) => void): Promise<Base> {
  report(`importing ${rootfs}`);
  const there = await stat(rootfs).catch(() => undefined);
  if (there === undefined) {
    throw new SvcError("USAGE", `${rootfs} is not there.`, { where: "--rootfs", help: "Give a folder or a tar file." });
  }
  const archive = there.isDirectory() ? packFolder(rootfs) : createReadStream(rootfs);
  const tag = randomUUID();
  const name = `svc/base:${tag}`;
  const forget = async () => {
    await engine
      .getImage(name)
      .remove({ force: true })
      .catch(() => {});
  };
  try {
    await followed(await engine.importImage(archive, { repo: "svc/base", tag }));
  } catch (error) {
    throw new SvcError("IMAGE_UNSUITABLE", `${rootfs} cannot be imported: ${engineWords(error)}.`, {
      help: "It has to be the folder, or a tar file, of a whole root file system.",
    });
  }
  return { name, forget };
}

const LEFT_OUT = ["./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/archives/*", "./var/lib/apt/lists/*"];

/** A root file system as a tar stream. The program `tar` makes it: owners, hard links and devices are its trade. */
function packFolder(dir: string): Readable {
  const excludes = LEFT_OUT.flatMap((pattern) => ["--exclude", pattern]);
  const child = spawn("tar", ["-C", dir, "--one-file-system", "--numeric-owner", ...excludes, "-c", "."], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const stream = new PassThrough();
  child.on("error", (error) => {
    stream.destroy(new SvcError("TOOL_MISSING", `The program tar cannot be run: ${error.message}.`));
  });
  // Without a free descriptor there are no pipes either.
  if (child.stdout === undefined) return stream;
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-2000);
  });
  child.stdout.pipe(stream, { end: false });
  child.on("close", (code) => {
    // A file that changed meanwhile is code 1; a live system always has some.
    if (code === 0 || code === 1) stream.end();
    else stream.destroy(new Error(said.trim().split("\n").at(-1) ?? `tar ended with code ${code}`));
  });
  return stream;
}
