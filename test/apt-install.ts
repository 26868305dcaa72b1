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
  for (const args of [["update", "-qq"], install]) {
    // Others may be about to install something, too.
    const result = await runProcess("flock", [LOCK, "apt-get", ...args], {
      env,
      signal: AbortSignal.timeout(INSTALL_MAX_MS),
    });
    if (result.code === 0) continue;
    return `"apt-get ${args[0]}" failed: ${`${result.stdout}\n${result.stderr}`.trim().split("\n").at(-1)}`;
  }
  return undefined;
}
