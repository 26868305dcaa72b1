/** svc in other versions, as npm installs it: the package made of the sources here, with another number and another protocol in it. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { handedOut } from "./package.ts";

interface OtherVersion {
  readonly version: string;
  readonly protocol?: number;
  /** The oldest protocol that its platform speaks. */
  readonly oldest?: number;
}

/** Where the numbers stand in what is installed. */
const VERSION_PLACES = ["dist/src/domain/version.js", "python/src/svc/version.py", "package.json"];
const PROTOCOL = "dist/src/domain/worker-protocol.js";
const PYTHON_PROTOCOL = "python/src/svc/_runtime/link/protocol.py";

/** A prefix of npm: a further version there is an upgrade in its place. */
export function npmPrefix(t: TestContext) {
  const prefix = mkdtempSync(path.join(tmpdir(), "svc-npm-"));
  t.after(() => rmSync(prefix, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const installed = path.join(prefix, "lib/node_modules", PUBLISHED_NAME);
  return {
    /** What Node is given. */
    program: path.join(installed, "dist/bin/svc.js"),
    /** By npm itself, which takes ten times as long as `place`. */
    async install(wanted: OtherVersion): Promise<void> {
      const dir = await changed(wanted);
      await run("npm", "pack", "--silent", "--pack-destination", dir, path.join(dir, "package"));
      const file = path.join(dir, `${PUBLISHED_NAME}-${wanted.version}.tgz`);
      if (!existsSync(file)) throw new Error(`npm made no ${file}`);
      await run("npm", "install", "-g", "--offline", "--no-audit", "--no-fund", "--prefix", prefix, file);
      rmSync(dir, { recursive: true });
    },
    /** As npm does it: what was there moves away before the new comes, and goes at last. */
    async place(wanted: OtherVersion): Promise<void> {
      const dir = await changed(wanted);
      mkdirSync(path.dirname(installed), { recursive: true });
      if (existsSync(installed)) renameSync(installed, path.join(dir, "before"));
      renameSync(path.join(dir, "package"), installed);
      rmSync(dir, { recursive: true });
    },
  };
}

/** A folder, to be removed, with the package of that version unpacked in it. */
async function changed({ version, protocol = 1, oldest = 1 }: OtherVersion): Promise<string> {
  const made = await handedOut();
  const dir = mkdtempSync(path.join(tmpdir(), "svc-version-"));
  await run("tar", "-xzf", path.join(made.folder, made.npm), "-C", dir);
  const change = (file: string, from: RegExp, to: string) => {
    const at = path.join(dir, "package", file);
    const text = readFileSync(at, "utf8");
    const other = text.replace(from, to);
    if (other === text && !from.test(to)) throw new Error(`${file} has no ${from}`);
    writeFileSync(at, other);
  };
  for (const file of VERSION_PLACES) change(file, new RegExp(`"${VERSION.replaceAll(".", "\\.")}"`), `"${version}"`);
  change(PROTOCOL, /\bPROTOCOL_VERSION ?= ?\d+/, `PROTOCOL_VERSION=${protocol}`);
  change(PROTOCOL, /\bPROTOCOL_OLDEST ?= ?\d+/, `PROTOCOL_OLDEST=${oldest}`);
  change(PYTHON_PROTOCOL, /^PROTOCOL = \d+/m, `PROTOCOL = ${protocol}`);
  return dir;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runProcess(command, args, { env: process.env });
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}\n${stdout}${stderr}`);
}
