/** A platform with pools of Pods beside a real API server, with the rights that the chart gives it and no others. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { startPlatform, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import type { ApiServer } from "./api-server.ts";
import { PlayedKubelet, type PlayedKubeletOptions } from "./played-kubelet.ts";

/** As docs/reference/pools.md lists them. */
export const RULES = [
  { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch", "create", "delete"] },
  { apiGroups: [""], resources: ["configmaps"], resourceNames: ["svc-hosts"], verbs: ["get"] },
];
let namespaces = 0;

export async function startInCluster(
  t: TestContext,
  server: ApiServer,
  pools: readonly object[],
  kubeletOptions: Partial<PlayedKubeletOptions> = {},
  env: Record<string, string> = {},
  /** Of the file of pools. */
  more: object = {},
  start = startPlatform,
) {
  const namespace = `t${++namespaces}`;
  const account = await release(server, namespace, tempDir(t));
  const file = path.join(tempDir(t), "pools.json");
  writeFileSync(file, JSON.stringify({ ...RELEASE, ...more, pools }));
  const port = String(server.port);
  const platform = await start(t, {
    ...{ SVC_LOCAL_WORKERS: "0", SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_POOLS_FILE: file },
    ...{ SVC_POOLS_ACCOUNT: account, KUBERNETES_SERVICE_HOST: server.host, KUBERNETES_SERVICE_PORT: port, ...env },
  });
  let url = platform.url;
  const kubelet = new PlayedKubelet(server, namespace, { platform: () => url, ...kubeletOptions });
  kubelet.start();
  t.after(() => kubelet.stop());
  const restart = async () => {
    const next = await platform.restart();
    url = next.url;
    return next;
  };
  const where = `/api/v1/namespaces/${namespace}`;
  // biome-ignore lint/suspicious/noExplicitAny: as the API server has them
  const pods = async (): Promise<any[]> => (await server.done("GET", `${where}/pods`)).items;
  const hosts = async (on = platform) =>
    (
      await on.query<{ hosts: { name: string; state: string; workers: { endpoint: string }[] }[] }>(
        "{ hosts { name state workers { endpoint } } }",
      )
    ).hosts;
  const joined = (count: number, on = platform) =>
    eventually(async () => {
      const here = (await hosts(on)).filter(({ state }) => state === "joined");
      assert.equal(here.length, count, JSON.stringify(await hosts(on)));
      return here;
    });
  return { platform, kubelet, namespace, account, where, pods, hosts, joined, restart };
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
export async function release(server: ApiServer, namespace: string, folder: string): Promise<string> {
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
