/** svc in other versions, installed by npm: the package made of the sources here, with another number and another protocol in it. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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

/** A prefix of npm: a further `install` there is an upgrade in its place. */
export function npmPrefix(t: TestContext) {
  const prefix = mkdtempSync(path.join(tmpdir(), "svc-npm-"));
  t.after(() => rmSync(prefix, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  return {
    /** What Node is given. */
    program: path.join(prefix, "lib/node_modules", PUBLISHED_NAME, "dist/bin/svc.js"),
    async install(wanted: OtherVersion): Promise<void> {
      const file = await packed(wanted);
      await run("npm", "install", "-g", "--offline", "--no-audit", "--no-fund", "--prefix", prefix, file);
      rmSync(path.dirname(file), { recursive: true });
    },
  };
}

async function packed({ version, protocol = 1, oldest = 1 }: OtherVersion): Promise<string> {
  const made = await handedOut();
  const dir = mkdtempSync(path.join(tmpdir(), "svc-version-"));
  await run("tar", "-xzf", path.join(made.folder, made.npm), "-C", dir);
  const change = (file: string, from: RegExp, to: string) => {
    const at = path.join(dir, "package", file);
    const text = readFileSync(at, "utf8");
    const changed = text.replace(from, to);
    if (changed === text && !from.test(to)) throw new Error(`${file} has no ${from}`);
    writeFileSync(at, changed);
  };
  for (const file of VERSION_PLACES) change(file, new RegExp(`"${VERSION.replaceAll(".", "\\.")}"`), `"${version}"`);
  change(PROTOCOL, /\bPROTOCOL_VERSION ?= ?\d+/, `PROTOCOL_VERSION=${protocol}`);
  change(PROTOCOL, /\bPROTOCOL_OLDEST ?= ?\d+/, `PROTOCOL_OLDEST=${oldest}`);
  change(PYTHON_PROTOCOL, /^PROTOCOL = \d+/m, `PROTOCOL = ${protocol}`);
  await run("npm", "pack", "--silent", "--pack-destination", dir, path.join(dir, "package"));
  const file = path.join(dir, `${PUBLISHED_NAME}-${version}.tgz`);
  if (!existsSync(file)) throw new Error(`npm made no ${file}`);
  return file;
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runProcess(command, args, { env: process.env });
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}\n${stdout}${stderr}`);
}
