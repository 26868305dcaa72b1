import { SvcError } from "./errors.ts";

/** The port of callers is another's. */
export function portInUse(host: string, port: number, cause?: unknown): SvcError {
  const help = "Stop what listens there, or set SVC_PORT to another port.";
  return new SvcError("PORT_IN_USE", `Port ${port} on ${host} is in use.`, { help, cause });
}
