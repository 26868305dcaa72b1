/** A folder that an installer filled: what it holds, and what must not stay in it. */
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Distribution } from "./dependency-closure.ts";
import { normalizedName } from "./requirement.ts";

export interface InstalledDistribution extends Distribution {
  /** Name of its .dist-info folder. */
  readonly info: string;
  /** Its files, relative to the folder, as RECORD lists them. */
  readonly files: readonly string[];
  readonly sizeBytes: number;
}

export function installedDistributions(folder: string): InstalledDistribution[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".dist-info"))
    .sort()
    .map((info) => {
      const metadata = readFileSync(path.join(folder, info, "METADATA"), "utf8").split(/\r?\n\r?\n/)[0]!;
      const field = (name: string) => metadata.match(new RegExp(`^${name}:\\s*(.*?)\\s*$`, "im"))?.[1] ?? "";
      const files = recordedFiles(folder, info);
      return {
        info,
        name: normalizedName(field("Name")),
        version: field("Version"),
        requires: [...metadata.matchAll(/^Requires-Dist:\s*(.*?)\s*$/gim)].map((match) => match[1]!),
        files,
        sizeBytes: files.reduce((sum, file) => sum + sizeOf(path.join(folder, file)), 0),
      };
    });
}

/** Removes a distribution's files and the folders that become empty. */
export function removeDistribution(folder: string, distribution: InstalledDistribution): void {
  for (const file of distribution.files) rmSync(path.join(folder, file), { force: true });
  rmSync(path.join(folder, distribution.info), { recursive: true, force: true });
  const folders = new Set(distribution.files.map((file) => file.split("/")[0]!).filter((top) => top !== ""));
  for (const top of folders) removeEmptyFolders(path.join(folder, top));
}

const MACHINE_FILES = ["INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"];

/**
 * Takes out what names this machine or its package index: direct_url.json and its like, the interpreter's path in
 * scripts, lock files. The packages themselves stay as they are.
 */
export function cleanTree(folder: string): void {
  rmSync(path.join(folder, ".lock"), { force: true });
  for (const info of readdirSync(folder).filter((name) => name.endsWith(".dist-info"))) {
    for (const name of MACHINE_FILES) rmSync(path.join(folder, info, name), { force: true });
    const record = path.join(folder, info, "RECORD");
    if (existsSync(record)) replaceFile(record, portableRecord(readFileSync(record, "utf8"), info));
  }
  const scripts = path.join(folder, "bin");
  if (!existsSync(scripts)) return;
  for (const name of readdirSync(scripts)) {
    const file = path.join(scripts, name);
    if (!statSync(file).isFile()) continue;
    const content = readFileSync(file, "latin1");
    const portable = portableScript(content);
    if (portable !== content) replaceFile(file, portable, 0o755);
  }
}

/** Without the files taken out, and without the checksums of scripts, which were changed. */
function portableRecord(record: string, info: string): string {
  const lines = record
    .split(/\r?\n/)
    .filter((line) => line !== "" && !MACHINE_FILES.some((name) => line.startsWith(`${info}/${name},`)));
  const portable = lines.map((line) => (/^(\.\.\/)*bin\//.test(line) ? `${line.split(",")[0]},,` : line));
  return `${portable.sort().join("\n")}\n`;
}

/** "#!/home/me/venv/bin/python3.11" and pip's "#!/bin/sh" + exec trick become "#!/usr/bin/env python3". */
function portableScript(content: string): string {
  return content
    .replace(/^#!\/bin\/sh\n'''exec' .*\n' '''\n/, "#!/usr/bin/env python3\n")
    .replace(/^#!.*python[\d.]*[^\n]*\n/, "#!/usr/bin/env python3\n");
}

/** An installer may have hard-linked the file to its own cache: never write into it. */
function replaceFile(file: string, content: string, mode = 0o644): void {
  rmSync(file);
  writeFileSync(file, Buffer.from(content, path.basename(file) === "RECORD" ? "utf8" : "latin1"), { mode });
}

function recordedFiles(folder: string, info: string): string[] {
  const record = path.join(folder, info, "RECORD");
  if (!existsSync(record)) return [];
  return readFileSync(record, "utf8")
    .split(/\r?\n/)
    .map((line) => (line.startsWith('"') ? line.slice(1, line.indexOf('"', 1)) : line.split(",")[0]!))
    .map((file) => path.posix.normalize(file).replace(/^(\.\.\/)+/, ""))
    .filter((file) => file !== "" && file !== "." && !path.isAbsolute(file));
}

function removeEmptyFolders(folder: string): void {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeEmptyFolders(path.join(folder, entry.name));
  }
  if (readdirSync(folder).length === 0) rmSync(folder, { recursive: true });
}

function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}
