/** Why nothing can listen at an address, in words. */
import { SvcError } from "./errors.ts";

/** Flags or settings that say where. */
interface Where {
  readonly host: string;
  readonly port: string;
}

const OF_CALLERS: Where = { host: "SVC_HOST", port: "SVC_PORT" };
/** Those that say both at once. */
const BOTH = (setting: string): Where => ({ host: setting, port: setting });

/** The port is another's. */
export function portInUse(host: string, port: number, cause?: unknown, where = OF_CALLERS): SvcError {
  const help = `Stop what listens there, or set ${where.port} to another port.`;
  return new SvcError("PORT_IN_USE", `Port ${port} on ${host} is in use.`, { help, cause });
}

/** `error` in words when the address is at fault. */
export function cannotListen(error: unknown, host: string, port: number, at: Where | string = OF_CALLERS): unknown {
  const where = typeof at === "string" ? BOTH(at) : at;
  const { code = "" } = error as NodeJS.ErrnoException;
  const wrong = (message: string, help: string) => new SvcError("CONFIG_INVALID", message, { help, cause: error });
  if (code === "EADDRINUSE") return portInUse(host, port, error, where);
  if (code === "EACCES")
    return wrong(`Port ${port} may not be used by this user.`, `Take a port above 1023: ${where.port}.`);
  if (["EADDRNOTAVAIL", "EINVAL", "EAFNOSUPPORT", "ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA"].includes(code)) {
    return wrong(
      `${host} is no address of this machine (${code}).`,
      `Set ${where.host} to one that it has, or to localhost.`,
    );
  }
  return error;
}
