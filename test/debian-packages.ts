/** Programs out of Debian packages that tests unpack into the cache: nothing of theirs is installed or started. */
import { existsSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CACHE } from "../bench/processes.ts";
import { onPath } from "../src/lib/on-path.ts";
import { runProcess } from "../src/lib/run-process.ts";

const MAX_MS = 300_000;
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** A program of a package of Debian's `suite`: its path, or why there is none. */
export async function debianProgram(
  aptPackage: string,
  suite: string,
  file: string,
): Promise<{ readonly program: string } | { readonly missing: string }> {
  const folder = path.join(CACHE, `${aptPackage}-${suite}-${process.arch}`);
  const program = path.join(folder, file);
  if (existsSync(program)) return { program };
  if (onPath("apt-get", process.env.PATH ?? "") === undefined) return { missing: `${aptPackage} needs apt-get` };
  const temp = mkdtempSync(path.join(tmpdir(), "svc-debian-"));
  try {
    const mirror = await said("apt-get", ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Identifier: Packages"]);
    const [, uri] = /^Debian (\S+)$/m.exec(mirror) ?? [];
    if (uri === undefined) return { missing: `${aptPackage}: this machine has no mirror of Debian` };
    for (const dir of ["lists/partial", "cache/archives/partial"]) mkdirSync(path.join(temp, dir), { recursive: true });
    const list = path.join(temp, "sources.list");
    writeFileSync(list, `deb [signed-by=${KEYRING}] ${uri} ${suite} main\n`);
    const places = {
      "Dir::Etc::sourcelist": list,
      "Dir::Etc::sourceparts": "/dev/null",
      "Dir::State::lists": path.join(temp, "lists"),
      "Dir::Cache": path.join(temp, "cache"),
      "APT::Sandbox::User": "",
    };
    const options = Object.entries(places).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    await said("apt-get", [...options, "update", "-qq"]);
    await said("apt-get", [...options, "download", "-qq", aptPackage], temp);
    const unpacked = path.join(temp, "unpacked");
    await said("dpkg-deb", ["--extract", path.join(temp, globSync("*.deb", { cwd: temp })[0]!), unpacked]);
    mkdirSync(CACHE, { recursive: true });
    rmSync(folder, { recursive: true, force: true });
    await said("cp", ["-r", unpacked, `${folder}.${process.pid}`]);
    renameSync(`${folder}.${process.pid}`, folder);
    return existsSync(program) ? { program } : { missing: `${aptPackage} of ${suite} has no ${file}` };
  } catch (error) {
    return { missing: `${aptPackage}: ${(error as Error).message}` };
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

async function said(command: string, args: readonly string[], cwd?: string): Promise<string> {
  const options = { ...(cwd && { cwd }), env: process.env, signal: AbortSignal.timeout(MAX_MS) };
  const { code, stdout, stderr } = await runProcess(command, args, options);
  if (code === 0) return stdout;
  throw new Error(`"${command} ${args.at(-1)}" failed: ${stderr.trim().split("\n").at(-1)}`);
}
