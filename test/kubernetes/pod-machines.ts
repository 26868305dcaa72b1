/** Pods as machines of platforms that tests play: made as the platform makes them, in a cluster that somebody runs Pods of. */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { podSpec } from "../../src/kubernetes/pod-spec.ts";
import { readPoolsFile } from "../../src/kubernetes/pools-file.ts";
import { eventually } from "../eventually.ts";
import type { JoinMachine } from "../host/host-driver.ts";
import type { ClusterApi } from "./cluster-api.ts";
import { RELEASE } from "./release.ts";

interface PodMachines {
  readonly server: ClusterApi;
  readonly namespace: string;
  /** Of the file of pools, in place of what is usual. */
  readonly release?: object;
  readonly pool: { readonly name: string; readonly cpu: number; readonly memory: number };
  /** What the Pod of this name printed. */
  readonly said: (name: string) => Promise<string>;
}

/** What owns them, and whose tokens they get. */
export async function preparePodMachines(server: ClusterApi, namespace: string): Promise<void> {
  await server.namespace(namespace);
  await server.serviceAccount(namespace, RELEASE.serviceAccount);
  await server.done("POST", `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name: RELEASE.owner } });
}

/** Each machine is a Pod that is made with the platform's own words for it. */
export function podMachines({ server, namespace, release, pool, said }: PodMachines): JoinMachine {
  const core = `/api/v1/namespaces/${namespace}`;
  return (address, end) => {
    const [platform = "", fingerprint = ""] = address.split("#");
    const name = `svc-${pool.name}-${randomUUID().slice(0, 8)}`;
    const file = poolsFile({ ...RELEASE, ...release, platform, pools: [pool] });
    end.admits = (token) => podOf(token) === name;
    const made = (async () => {
      const { metadata } = await server.done("GET", `${core}/configmaps/${file.owner}`);
      const facts = { file, pool: file.pools[0]!, name, fingerprint, ownerUid: metadata.uid };
      await server.done("POST", `${core}/pods`, podSpec({ ...facts, audience: `svc:${namespace}:${file.release}` }));
    })();
    made.catch(() => {});
    let isAlive = true;
    const status = async () => JSON.stringify((await server.ask("GET", `${core}/pods/${name}`)).body.status);
    return {
      get isAlive() {
        return isAlive;
      },
      ended: made.then(() => new Promise(() => {})),
      said: async () => `${await status()}\n${await said(name)}`,
      end: async () => {
        isAlive = false;
        await server.ask("DELETE", `${core}/pods/${name}`);
        await eventually(async () => {
          const { status: code } = await server.ask("GET", `${core}/pods/${name}`);
          if (code !== 404) throw new Error(`${name} does not end: ${await status()}\n${await said(name)}`);
        });
      },
    };
  };
}

function poolsFile(content: object) {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-pools-"));
  try {
    const file = path.join(folder, "pools.json");
    writeFileSync(file, JSON.stringify(content));
    return readPoolsFile(file);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Of a service account's token; nobody else's name is in it. */
function podOf(token: string): string | undefined {
  const [, claims] = token.split(".");
  if (claims === undefined) return undefined;
  return JSON.parse(Buffer.from(claims, "base64url").toString())["kubernetes.io"]?.pod?.name;
}
