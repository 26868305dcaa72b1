/** Where the platform that has the database is reached. */
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import { LINK_VERSIONS } from "../gateway-link/protocol.ts";
import type { ReplicaRow } from "../postgres/replicas.ts";

/** Throws PLATFORM_UNREACHABLE where it cannot be reached yet, or not by this release. */
export function addressOf({ address, place, firstLink, lastLink, version }: ReplicaRow) {
  const { min, max } = LINK_VERSIONS;
  if (firstLink > max || lastLink < min) {
    const message = `The platform that has the database, ${place}, has svc ${version}: this one, ${VERSION}, cannot take calls for it.`;
    throw new SvcError("PLATFORM_UNREACHABLE", message, { help: "Upgrade one release at a time." });
  }
  const [, host = "", port] = /^\[?(.*?)\]?:(\d+)$/.exec(address) ?? [];
  if (host !== "") return { host, port: Number(port) };
  throw new SvcError("PLATFORM_UNREACHABLE", `The platform that has the database, ${place}, is still starting.`);
}

/** Nobody listens there. */
export function isRefused(error: unknown): boolean {
  const { cause } = error as { cause?: NodeJS.ErrnoException };
  return cause?.code === "ECONNREFUSED";
}
