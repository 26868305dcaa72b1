/**
 * Who workers are inside their container: not root, and able to connect to the platform's socket. A platform of an
 * ordinary user gives them its own ids; one of root gives them an id of nobody else, which then owns the socket. Under a
 * rootless engine a container's root is the user who runs the engine, and any other id is a stranger to the socket.
 */
import type { EngineFacts } from "./engine.ts";

/** No account of the usual distributions has it. */
const UNPRIVILEGED_ID = 65532;

export interface ContainerUser {
  /** `uid:gid` */
  readonly user: string;
  /** Who has to own the socket; undefined: it is right as it is. */
  readonly owner: number | undefined;
}

export function containerUser({ rootless }: EngineFacts): ContainerUser {
  // Not userInfo(): an id need not have an account.
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  if (rootless) return { user: "0:0", owner: undefined };
  if (uid === 0) return { user: `${UNPRIVILEGED_ID}:${UNPRIVILEGED_ID}`, owner: UNPRIVILEGED_ID };
  return { user: `${uid}:${gid}`, owner: undefined };
}
