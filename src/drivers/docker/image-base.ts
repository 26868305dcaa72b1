/** What an image is built on: found, pulled, or imported from a root file system. */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { SvcError } from "../../domain/errors.ts";
import { askPython } from "../../lib/python-version.ts";
import { type Engine, engineWords, followed } from "./engine.ts";
import type { ImageShelf } from "./image-facts.ts";
import { packFolder } from "./rootfs.ts";

/** An image, or a root file system as a folder or a tar file; undefined: the base that the Dockerfile names. */
export type BaseChoice = { readonly image: string } | { readonly rootfs: string } | undefined;

export interface Base {
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
    await followed(engine, await engine.pull(name));
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
    await followed(engine, await engine.importImage(archive, { repo: "svc/base", tag }));
  } catch (error) {
    throw new SvcError("IMAGE_UNSUITABLE", `${rootfs} cannot be imported: ${engineWords(error)}.`, {
      help: "It has to be the folder, or a tar file, of a whole root file system.",
    });
  }
  return { name, forget };
}
