/** A platform with pools of Pods beside a real API server, with the rights that the chart gives it and no others. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { startPlatform, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import type { ClusterApi } from "./cluster-api.ts";
import { PlayedKubelet, type PlayedKubeletOptions } from "./played-kubelet.ts";
import { poolsEnv } from "./release.ts";

let namespaces = 0;

export async function startInCluster(
  t: TestContext,
  server: ClusterApi,
  pools: readonly object[],
  kubeletOptions: Partial<PlayedKubeletOptions> = {},
  env: Record<string, string> = {},
  /** Of the file of pools. */
  more: object = {},
  start = startPlatform,
) {
  const namespace = `t${++namespaces}`;
  const made = await poolsEnv(server, namespace, tempDir(t), pools, more);
  const { SVC_POOLS_ACCOUNT: account, SVC_POOLS_FILE: file } = made;
  const platform = await start(t, { ...made, ...env });
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
  const joined = (count: number, on = platform, maxMs?: number) =>
    eventually(async () => {
      const here = (await hosts(on)).filter(({ state }) => state === "joined");
      assert.equal(here.length, count, JSON.stringify(await hosts(on)));
      return here;
    }, maxMs);
  return { platform, kubelet, namespace, account, file, where, pods, hosts, joined, restart };
}
