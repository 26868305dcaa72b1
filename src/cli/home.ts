import { userInfo } from "node:os";
import { isAbsolute } from "node:path";

/** What programs are given that have no folder of their own. */
const NO_HOME = "/nonexistent";

/**
 * Makes the environment say where a user's own files are: HOME, where it is none, from the account; XDG_* only where they are absolute, as
 * their specification asks. What stands below a relative one would lie in the project and ship with it.
 */
export function settleHome(env: Record<string, string | undefined>): void {
  if (!isAbsolute(env.HOME ?? "")) env.HOME = homeOfAccount() ?? NO_HOME;
  for (const name of ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"])
    if (!isAbsolute(env[name] ?? "")) delete env[name];
}

function homeOfAccount(): string | undefined {
  try {
    const { homedir } = userInfo();
    return isAbsolute(homedir) ? homedir : undefined;
  } catch {
    return undefined; // An id need not have an account.
  }
}
