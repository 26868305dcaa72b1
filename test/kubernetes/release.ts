/** What the chart makes of a platform with pools of Pods, with the rights that it gives and no others: beside a real API server. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { ClusterApi } from "./cluster-api.ts";

/** As docs/reference/pools.md lists them. */
export const RULES = [
  { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch", "create", "delete"] },
  { apiGroups: [""], resources: ["configmaps"], resourceNames: ["svc-hosts"], verbs: ["get"] },
];
/** What a platform is started with that has these pools; its files lie in `folder`. */
export async function poolsEnv(
  server: ClusterApi,
  namespace: string,
  folder: string,
  pools: readonly object[],
  /** Of the file of pools. */
  more: object = {},
) {
  const SVC_POOLS_ACCOUNT = await release(server, namespace, folder);
  const SVC_POOLS_FILE = path.join(folder, "pools.json");
  writeFileSync(SVC_POOLS_FILE, JSON.stringify({ ...RELEASE, ...more, pools }));
  const place = { KUBERNETES_SERVICE_HOST: server.host, KUBERNETES_SERVICE_PORT: String(server.port) };
  const where = { SVC_LOCAL_WORKERS: "0", SVC_WORKER_LISTEN: "tls://127.0.0.1:0" };
  return { ...where, ...place, SVC_POOLS_FILE, SVC_POOLS_ACCOUNT };
}

export const RELEASE = {
  ...{
    release: "svc",
    owner: "svc-hosts",
    platform: "http://svc.test:7878",
    serviceAccount: "svc-host",
    image: "svc/platform",
  },
  grace: 5,
};

/** What the chart makes for the platform. Returns the folder of its service account. */
export async function release(server: ClusterApi, namespace: string, folder: string): Promise<string> {
  await server.namespace(namespace);
  const where = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  for (const account of ["svc", "svc-host"]) await server.serviceAccount(namespace, account);
  await server.done("POST", `${where}/roles`, { metadata: { name: "svc" }, rules: RULES });
  const subjects = [{ kind: "ServiceAccount", name: "svc", namespace }];
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "svc" };
  await server.done("POST", `${where}/rolebindings`, { metadata: { name: "svc" }, subjects, roleRef });
  await server.done("POST", `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: "svc-hosts" } });
  const account = path.join(folder, "account");
  mkdirSync(account);
  writeFileSync(path.join(account, "token"), await server.token(namespace, "svc", ["https://kubernetes.default.svc"]));
  writeFileSync(path.join(account, "ca.crt"), server.ca);
  writeFileSync(path.join(account, "namespace"), namespace);
  return account;
}
