/** `svc volume`: folders that stay, and the files in them. */
import path from "node:path";
import type { Place, VolumeRecord } from "../../client/administration.ts";
import { VolumeFiles } from "../../client/volume-files.ts";
import { SvcError } from "../../domain/errors.ts";
import { volumePathProblems } from "../../domain/volume.ts";
import { appFlag, command, envFlag, type FlagsOf, group, jsonFlag, switchFlag } from "../command.ts";
import { administer } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { dateTime, formatSize } from "../format.ts";
import { localFiles } from "../volume/local-files.ts";
import { download, downloadTo, type Transferred, upload, uploadStream } from "../volume/transfer.ts";

const flags = { app: appFlag, env: envFlag, json: jsonFlag };
const aliases = { a: "app", e: "env" } as const;
const NAME = { placeholder: "NAME", brief: "Name of the volume" };

const createVolume = command({
  brief: "Make a volume",
  text: "Makes an empty volume, so that files are there before the first deploy. Deploying an endpoint that names one makes it too.",
  examples: [["svc volume create models", "In this directory's app"]],
  flags,
  aliases,
  parameters: [NAME],
  async run(flags, name) {
    const { administration, place } = await atPlace(this, flags);
    const volume = await administration.createVolume(place, name);
    if (flags.json) return this.terminal.json({ ...place, ...volume });
    this.terminal.out(`Made ${name} in ${shown(place)}.`);
    this.terminal.note(`Next: svc volume put ${name} FILE, and Endpoint(volume="${name}") in the code.`);
  },
});

const listVolumes = command({
  brief: "List the volumes of an environment",
  text: "Lists volumes, how much they hold (measured once a minute), their limits and the endpoints that name them.",
  examples: [
    ["svc volume list", "Of this directory's app"],
    ["svc volume list --env staging --json", "For programs, with sizes in bytes"],
  ],
  flags,
  aliases,
  async run(flags) {
    const { administration, place } = await atPlace(this, flags);
    const volumes = await administration.volumes(place);
    if (flags.json) return this.terminal.json(volumes);
    if (volumes.length === 0) return this.terminal.note(`${shown(place)} has no volumes. Next: svc volume create NAME`);
    await this.terminal.table(
      ["VOLUME", "SIZE", "LIMIT", "ENDPOINTS"],
      volumes.map((volume) => [volume.name, sizeText(volume.sizeBytes), limitText(volume), usersText(volume)]),
    );
  },
});

const deleteVolume = command({
  brief: "Delete a volume with its files",
  text: "Deletes the volume and all files in it. Refused while an endpoint names it.",
  examples: [["svc volume delete models", "Asks first"]],
  flags: { ...flags, force: switchFlag("Do not ask") },
  aliases: { ...aliases, f: "force" },
  parameters: [NAME],
  async run(flags, name) {
    const { terminal } = this;
    const { administration, place } = await atPlace(this, flags);
    if (!flags.force) {
      if (!terminal.interactive) {
        throw new SvcError("USAGE", "This deletes files, and nobody can be asked here.", { help: "Add --force." });
      }
      if (!(await terminal.confirm(`Delete ${name} of ${shown(place)} with all its files?`, false))) {
        return terminal.note("Nothing was deleted.");
      }
    }
    await administration.deleteVolume(place, name);
    if (flags.json) return terminal.json({ ...place, name });
    terminal.out(`Deleted ${name} of ${shown(place)}.`);
  },
});

const listFiles = command({
  brief: "List files of a volume",
  text: "Lists a folder of the volume, or one file. Links are shown and not followed.",
  examples: [
    ["svc volume ls models", "What is in it"],
    ["svc volume ls models checkpoints --json", "A folder, for programs"],
  ],
  flags,
  aliases,
  parameters: [NAME, { placeholder: "PATH", brief: "Folder or file; default: all", optional: true }],
  async run(flags, name, where = "") {
    const { files } = await filesOf(this, flags, name);
    const [own, ...inside] = await files.entries(pathOf(where));
    const entries = own.kind === "folder" ? inside : [own];
    if (flags.json) return this.terminal.json(entries);
    if (entries.length === 0) return this.terminal.note("It is empty.");
    await this.terminal.table(
      ["NAME", "SIZE", "CHANGED"],
      entries.map(({ name, kind, sizeBytes, modifiedAt }) => [
        kind === "folder" ? `${name}/` : name,
        kind === "file" ? formatSize(sizeBytes) : kind,
        dateTime(modifiedAt),
      ]),
    );
  },
});

const putFiles = command({
  brief: "Copy files into a volume",
  text: `Copies a file, or a folder with all in it, into the volume; "-" is the standard input. A file stands at its place when it is whole, and replaces one that was there. Links that lead out of the folder are left out.`,
  examples: [
    ["svc volume put models weights.bin", "To /weights.bin of the volume"],
    ["svc volume put models ./checkpoints /v2", "A folder, as /v2, or into it where it exists"],
    ["tar c data | svc volume put models - data.tar", "What another program writes"],
  ],
  flags,
  aliases,
  parameters: [
    NAME,
    { placeholder: "LOCAL", brief: 'File or folder here, or "-"' },
    { placeholder: "PATH", brief: "Where in the volume; default: its top", optional: true },
  ],
  async run(flags, name, local, to = "/") {
    const { files } = await filesOf(this, flags, name);
    if (local === "-") {
      if (pathOf(to).length === 0 || to.endsWith("/")) {
        throw new SvcError("USAGE", "What comes from the standard input needs a name.", {
          help: `svc volume put ${name} - NAME`,
        });
      }
      return told(
        this,
        flags,
        `${name}/${pathOf(to).join("/")}`,
        await uploadStream(this, files, process.stdin, pathOf(to)),
      );
    }
    const found = await localFiles(path.resolve(this.cwd, local));
    const isInto = to.endsWith("/") || (await isFolder(files, pathOf(to)));
    const target = isInto ? [...pathOf(to), path.basename(path.resolve(this.cwd, local))] : pathOf(to);
    return told(this, flags, `${name}/${target.join("/")}`, await upload(this, files, found, target));
  },
});

const getFiles = command({
  brief: "Copy files out of a volume",
  text: `Copies a file, or a folder with all in it, out of the volume; to "-" writes it to the standard output. Links are left out.`,
  examples: [
    ["svc volume get models weights.bin", "Into this directory"],
    ["svc volume get models / backup", "All of it, as backup, or into it where it exists"],
    ["svc volume get models data.tar - | tar x", "For another program"],
  ],
  flags: { ...flags, force: switchFlag("Replace files that are here already") },
  aliases: { ...aliases, f: "force" },
  parameters: [
    NAME,
    { placeholder: "PATH", brief: "File or folder of the volume" },
    { placeholder: "LOCAL", brief: 'Where here, or "-"; default: this directory', optional: true },
  ],
  async run(flags, name, from, local = ".") {
    const { files } = await filesOf(this, flags, name);
    if (local === "-") {
      if (flags.json) throw new SvcError("USAGE", "The standard output takes the file or the JSON, not both.");
      return downloadTo(this, files, pathOf(from), process.stdout);
    }
    const { target, ...done } = await download(this, files, pathOf(from), local, flags.force === true);
    told(this, flags, target, done);
  },
});

const removeFiles = command({
  brief: "Remove files of a volume",
  text: "Removes a file, a link or an empty folder; with --recursive a folder with all in it. The path / is all of the volume, which stays.",
  examples: [
    ["svc volume rm models weights.bin", "One file"],
    ["svc volume rm models checkpoints --recursive", "A folder with all in it"],
  ],
  flags: { ...flags, recursive: switchFlag("With all that is in it") },
  aliases: { ...aliases, r: "recursive" },
  parameters: [NAME, { placeholder: "PATH", brief: "File or folder of the volume" }],
  async run(flags, name, where) {
    const { files } = await filesOf(this, flags, name);
    await files.remove(pathOf(where), flags.recursive === true);
    if (flags.json) return this.terminal.json({ volume: name, path: `/${pathOf(where).join("/")}` });
    this.terminal.out(`Removed ${name}/${pathOf(where).join("/")}.`);
  },
});

export const volumeCommands = group("Folders that stay, and their files", {
  create: createVolume,
  list: listVolumes,
  ls: listFiles,
  put: putFiles,
  get: getFiles,
  rm: removeFiles,
  delete: deleteVolume,
});

function usersText({ cache, endpoints }: VolumeRecord): string {
  return cache ? "all (cache of what workers fetch)" : endpoints.join(", ");
}

function sizeText(bytes: number | null): string {
  return bytes === null ? "not measured yet" : formatSize(bytes);
}

function limitText({ limitBytes }: VolumeRecord): string {
  return limitBytes === null ? "" : formatSize(limitBytes);
}

async function atPlace(context: CliContext, given: FlagsOf<typeof flags>) {
  const { controlPlane, administration } = await administer(context);
  const { app, environment } = await resolveTarget(controlPlane, context.cwd, given);
  return { administration, controlPlane, place: { app, environment } };
}

async function filesOf(context: CliContext, given: FlagsOf<typeof flags>, name: string) {
  const { controlPlane, place } = await atPlace(context, given);
  return { files: new VolumeFiles(controlPlane.platform, { ...place, name }) };
}

/** Names from the volume downwards. Throws USAGE. */
function pathOf(text: string): string[] {
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  const problems = volumePathProblems(parts);
  if (problems.length > 0) throw new SvcError("USAGE", problems.join("\n"), { where: text });
  return parts;
}

async function isFolder(files: VolumeFiles, where: readonly string[]): Promise<boolean> {
  const found = await files.entries(where).catch((error: unknown) => {
    if (error instanceof SvcError && error.code === "NOT_FOUND" && where.length > 0) return undefined;
    throw error;
  });
  return found?.[0].kind === "folder";
}

function told({ terminal }: CliContext, flags: { json?: boolean }, target: string, done: Transferred): void {
  if (flags.json) {
    terminal.json({ target, ...done });
    return;
  }
  const { files, bytes, skipped } = done;
  terminal.out(`${target}: ${files === 1 ? "1 file" : `${files} files`}, ${formatSize(bytes)}`);
  if (skipped.length === 0) return;
  const some = skipped.slice(0, SKIPPED_SHOWN).join(", ");
  terminal.note(
    `Left out, because they are links or no files: ${some}${skipped.length > SKIPPED_SHOWN ? ", …" : ""} (${skipped.length})`,
  );
}
const SKIPPED_SHOWN = 5;

function shown({ app, environment }: Place): string {
  return `${app}/${environment}`;
}
