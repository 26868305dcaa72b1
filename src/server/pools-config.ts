/** Where pools of Pods are described, and the API server of the cluster that the platform runs in. */
import path from "node:path";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";

/** Where Kubernetes mounts a Pod's service account. */
const ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/** One line per key, as in config.ts. */
export const poolsKeys = {
  /** File with the pools of Pods that run workers (docs/reference/pools.md). */
  SVC_POOLS_FILE: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
  /** Folder with the token, ca.crt and namespace of the platform's service account. */
  SVC_POOLS_ACCOUNT: z.string().refine(path.isAbsolute, "is not an absolute path").default(ACCOUNT_FOLDER),
};

export interface PoolsConfig {
  readonly file: string;
  /** Of the API server. */
  readonly host: string;
  readonly port: number;
  readonly account: string;
}

/** Undefined without pools. Throws CONFIG_INVALID. */
export function readPools(
  given: z.output<z.ZodObject<typeof poolsKeys>>,
  env: Readonly<Record<string, string | undefined>>,
  listensForHosts: boolean,
): PoolsConfig | undefined {
  const { SVC_POOLS_FILE: file, SVC_POOLS_ACCOUNT: account } = given;
  if (file === undefined) return undefined;
  const bad = (message: string, help: string) => new SvcError("CONFIG_INVALID", `SVC_POOLS_FILE: ${message}`, { help });
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !/^\d{1,5}$/.test(port ?? "")) {
    throw bad(
      "the platform does not run in Kubernetes",
      "Its Pods have KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.",
    );
  }
  if (!listensForHosts)
    throw bad("no Pod could join: there is no SVC_WORKER_LISTEN", "Set SVC_WORKER_LISTEN=tls://0.0.0.0:7879.");
  return { file, host, port: Number(port), account };
}
