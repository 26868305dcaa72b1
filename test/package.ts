/**
 * What we hand out, made of the sources here once for all test files: packages take seconds. `npm test` makes it before
 * the first file runs; a file that is run by itself makes its own.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PLATFORMS } from "../packaging/archive.ts";
import { makeAll } from "../packaging/make-all.ts";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";

const HERE = `${process.platform}-${process.arch}`;

/** A folder as `make dist` leaves it, and the names of the files in it. */
export interface HandedOut {
  readonly folder: string;
  readonly npm: string;
  readonly archive: string;
}

let own: Promise<HandedOut> | undefined;

export async function handedOut(): Promise<HandedOut> {
  const given = process.env.SVC_TEST_DIST;
  if (given !== undefined) return JSON.parse(given) as HandedOut;
  own ??= makeOwn();
  return own;
}

async function makeOwn(): Promise<HandedOut> {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-dist-"));
  // No hook of a test: this may be called in one.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  return makeHandedOut(folder);
}

/** Packed quickly, not as tight as may be: an archive that is unpacked a dozen times, with 100 MB of Node, is not packed at all. */
export async function makeHandedOut(folder: string): Promise<HandedOut> {
  const platform = PLATFORMS.find((one) => one === HERE);
  if (platform === undefined) throw new Error(`there is no archive for ${HERE}`);
  await makeAll(folder, [platform], true);
  return { folder, npm: `${PUBLISHED_NAME}-${VERSION}.tgz`, archive: `svc-${platform}.tar.gz` };
}
