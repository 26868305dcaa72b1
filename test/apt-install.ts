/** Debian packages that tests need. */
import { onPath } from "../src/lib/on-path.ts";
import { runProcess } from "../src/lib/run-process.ts";

const INSTALL_MAX_MS = 600_000;
const LOCK = "/var/lock/svc-tests-apt";

/** Resolves why it could not be installed; undefined when it was. */
export async function aptInstall(aptPackage: string): Promise<string | undefined> {
  if (onPath("apt-get", process.env.PATH ?? "") === undefined) return `${aptPackage} is not installed`;
  if (process.getuid?.() !== 0) return `${aptPackage} is not installed, and only root can install it`;
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const install = ["install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", aptPackage];
  // Others may be about to install something, too.
  const locked = (...command: string[]) =>
    runProcess("flock", [LOCK, ...command], { env, signal: AbortSignal.timeout(INSTALL_MAX_MS) });
  // What was broken off in the midst of it, as by Ctrl+C, keeps every later one from its work. Where it fails, so does that.
  await locked("dpkg", "--configure", "-a");
  for (const args of [["update", "-qq"], install]) {
    const { code, stdout, stderr } = await locked("apt-get", ...args);
    if (code !== 0) return `"apt-get ${args[0]}" failed: ${`${stdout}\n${stderr}`.trim().split("\n").at(-1)}`;
  }
  return undefined;
}
