/** The Pod of a host. No secret is in it: what it proves itself with is mounted by its kubelet, and is good for this platform alone. */
import { hash } from "node:crypto";
import {
  CONTAINER_EXTRA_BYTES,
  POD_AGENT_CPU,
  POD_AGENT_CPU_MAX,
  POD_AGENT_MEMORY_MB,
  POD_END_GRACE_S,
  POD_JOIN_MAX_MS,
  POD_OWN_MEMORY_MB,
  POD_TOKEN_S,
} from "../domain/limits.ts";
import type { Having, Made } from "../domain/pools.ts";
import type { PodPool, PoolsFile } from "./pools-file.ts";

/** On every Pod of a release; the second names its pool. */
export const RELEASE_LABEL = "svc/release";
export const POOL_LABEL = "svc/pool";
/** On a Pod with volumes, which are on its node then: the chart puts the platform's next Pod beside it. */
const VOLUMES_LABEL = "svc/volumes";
/** On a Pod with volumes: whom it is held for. */
export const HOLDER_ANNOTATION = "svc/holder";
/** On a Pod of an endpoint's own image: what its workers have of it, as JSON. */
export const MACHINE_ANNOTATION = "svc/machine";

/** What it was made of: digests of its pool's settings, and of the rest of the file. */
const MADE_ANNOTATION = "svc/made";
const DIGEST_CHARS = 16;

/** On a Pod that is kept from nodes: their names. */
const AVOIDS_ANNOTATION = "svc/avoids";

const TOKEN_FOLDER = "/var/run/secrets/svc";
/** No volume of an endpoint may be mounted over it (domain/volume.ts). */
const DATA_FOLDER = "/opt/svc/data";
/** Of both containers of a Pod with an endpoint's own image; that one has it read-only. */
const SHARED_FOLDER = "/opt/svc/pod";

interface PodFacts {
  readonly file: Omit<PoolsFile, "pools">;
  readonly pool: PodPool;
  readonly name: string;
  readonly audience: string;
  /** The ConfigMap that owns it. */
  readonly ownerUid: string;
  /** Of the platform's certificate for machines. */
  readonly fingerprint: string;
  /** What it is made with, if anything. */
  readonly having?: Having | undefined;
  /** Names of nodes on which it is not to be put. */
  readonly avoids?: readonly string[] | undefined;
}

/** The nodes that a Pod is kept from. */
export function avoidedBy({ [AVOIDS_ANNOTATION]: names = "" }: Readonly<Record<string, string>>): readonly string[] {
  return names === "" ? [] : names.split(",");
}

/** Of what such a Pod is made: digests of its settings, and of the rest. How many there are, and how long, says nothing of one. */
export function madeOf({ file, pool }: Pick<PodFacts, "file" | "pool">): readonly string[] {
  const { warm: _, idle: __, max: ___, ...settings } = pool;
  const { disk, grace, env, serviceAccount, volumes, image, imagePullPolicy, imagePullSecrets, platform } = file;
  const all = [
    { ...settings, disk, grace, env, serviceAccount, volumes },
    { image, imagePullPolicy, imagePullSecrets, platform },
  ];
  return all.map((part) => hash("sha256", JSON.stringify(part)).slice(0, DIGEST_CHARS));
}

/** Undefined: a Pod that is made now would be as this one. A release that did not say it made it before. */
export function madeDifferently(
  annotations: Readonly<Record<string, string>>,
  [settings, rest]: readonly string[],
): Made | undefined {
  const [wasSettings, wasRest] = annotations[MADE_ANNOTATION]?.split(".") ?? [settings];
  if (wasSettings !== settings) return "otherwise";
  return wasRest === rest ? undefined : "before";
}

export function podSpec({ file, pool, name, audience, ownerUid, fingerprint, having, avoids = [] }: PodFacts): object {
  const own = having?.own;
  // With a volume of one node it has to be there.
  const beside = (having?.volumes ?? []).length > 0 ? file.volumes?.beside : undefined;
  const avoided = beside === undefined ? avoids : [];
  const annotations = {
    ...pool.annotations,
    [MADE_ANNOTATION]: madeOf({ file, pool }).join("."),
    ...(avoided.length > 0 && { [AVOIDS_ANNOTATION]: avoided.join(",") }),
    ...(having && { [HOLDER_ANNOTATION]: having.holder }),
    ...(own && { [MACHINE_ANNOTATION]: JSON.stringify(own.machine) }),
  };
  const { release, owner, platform, serviceAccount, image, imagePullPolicy, imagePullSecrets, grace, disk } = file;
  const [cpu, memory] = own ? [own.machine.vcpus, own.machine.memoryGb] : [pool.cpu, pool.memory];
  const gpus = own ? own.machine.gpus.length : pool.gpu;
  const memoryMb = Math.round(memory * 1024);
  const scratch = { "ephemeral-storage": `${Math.ceil(disk + 1)}Gi` };
  const { resourceClaims } = pool;
  const claims = pool.gpu === 0 || gpus > 0 ? resourceClaims.map(({ name }) => ({ name })) : [];
  const gpu = gpus > 0 && claims.length === 0 ? { [pool.gpuResource]: String(gpus) } : {};
  const sized = (mb: number) => {
    const resources = equal({ cpu: String(cpu), memory: `${mb}Mi`, ...scratch, ...gpu });
    return { ...resources, ...(claims.length > 0 && { claims }) };
  };
  const agentMemory = { memory: `${POD_AGENT_MEMORY_MB}Mi`, ...scratch };
  const offered = ["--cpus", String(cpu), "--memory", String(memory), "--disk", String(disk)];
  const volumeMounts = (having?.volumes ?? []).flatMap(({ app, environment, name: folder, paths, readOnly }) =>
    paths.map((mountPath) => {
      return { name: "volumes", mountPath, subPath: `${app}/${environment}/${folder}`, readOnly };
    }),
  );
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: {
        ...pool.labels,
        ...{ [RELEASE_LABEL]: release, [POOL_LABEL]: pool.name },
        ...(volumeMounts.length > 0 && { [VOLUMES_LABEL]: "true" }),
      },
      annotations,
      ownerReferences: [
        {
          apiVersion: "v1",
          kind: "ConfigMap",
          name: owner,
          uid: ownerUid,
          controller: true,
          blockOwnerDeletion: false,
        },
      ],
    },
    spec: {
      serviceAccountName: serviceAccount,
      // Its own token is the one below; the API server is not for it.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: "Always",
      terminationGracePeriodSeconds: Math.ceil(grace) + POD_END_GRACE_S,
      ...(pool.runtimeClassName !== undefined && { runtimeClassName: pool.runtimeClassName }),
      ...(pool.priorityClassName !== undefined && { priorityClassName: pool.priorityClassName }),
      ...(Object.keys(pool.nodeSelector).length > 0 && { nodeSelector: pool.nodeSelector }),
      ...(claims.length > 0 && { resourceClaims }),
      ...(pool.tolerations.length > 0 && { tolerations: pool.tolerations }),
      ...(beside && { affinity: { podAffinity: besides(beside) } }),
      ...(avoided.length > 0 && { affinity: { nodeAffinity: without(avoided) } }),
      ...(imagePullSecrets.length > 0 && { imagePullSecrets: imagePullSecrets.map((secret) => ({ name: secret })) }),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 7878,
        runAsGroup: 7878,
        fsGroup: 7878,
        fsGroupChangePolicy: "OnRootMismatch",
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "host",
          image,
          workingDir: DATA_FOLDER,
          imagePullPolicy,
          args: [
            ...[
              "worker",
              "join",
              `${platform.replace(/\/+$/, "")}#${fingerprint}`,
              "--token-file",
              `${TOKEN_FOLDER}/token`,
            ],
            ...["--name", name, "--labels", pool.name, "--data-dir", `${DATA_FOLDER}/host`, "--grace", `${grace}s`],
            // Names in a cluster are known a moment after the platform is ready.
            ...["--wait", `${POD_JOIN_MAX_MS / 1000}s`],
            ...offered,
            "--json",
          ],
          // What a Pod has is what it asked for: more is not promised.
          env: Object.entries({
            ...file.env,
            SVC_CPU_OVERCOMMIT: "1",
            SVC_MEMORY_OVERCOMMIT: "1",
            HOME: DATA_FOLDER,
            SVC_CONFIG_DIR: `${DATA_FOLDER}/config`,
            SVC_CACHE_DIR: `${DATA_FOLDER}/cache`,
            SVC_IN_POD: "1",
            ...(having && { SVC_VOLUMES_MOUNTED: "1" }),
            ...(own && { SVC_POD_DIR: SHARED_FOLDER }),
            ...(own && gpus > 0 && { SVC_POD_GPUS: own.machine.gpus.map(({ product }) => product).join(",") }),
          }).map(([key, value]) => ({ name: key, value })),
          resources: own
            ? {
                requests: { cpu: String(POD_AGENT_CPU), ...agentMemory },
                limits: { cpu: String(POD_AGENT_CPU_MAX), ...agentMemory },
              }
            : sized(memoryMb + POD_OWN_MEMORY_MB),
          securityContext: CONTAINER_SECURITY,
          volumeMounts: [
            { name: "data", mountPath: DATA_FOLDER },
            { name: "tmp", mountPath: "/tmp" },
            { name: "token", mountPath: TOKEN_FOLDER, readOnly: true },
            ...(own ? [{ name: "pod", mountPath: SHARED_FOLDER }] : [SHM_MOUNT, ...volumeMounts]),
          ],
        },
        ...(own
          ? [
              {
                name: "worker",
                image: own.image,
                // Of the image nothing is asked but python3.
                command: ["python3", "-I", "-S", "-c", BEGIN],
                workingDir: "/",
                env: [{ name: "HOME", value: "/tmp" }],
                resources: sized(memoryMb + Math.ceil(CONTAINER_EXTRA_BYTES / 1024 ** 2)),
                terminationMessagePolicy: "FallbackToLogsOnError",
                securityContext: CONTAINER_SECURITY,
                volumeMounts: [
                  { name: "pod", mountPath: SHARED_FOLDER, readOnly: true },
                  { name: "scratch", mountPath: "/tmp" },
                  SHM_MOUNT,
                  ...volumeMounts,
                ],
              },
            ]
          : []),
      ],
      volumes: [
        { name: "data", emptyDir: {} },
        { name: "tmp", emptyDir: {} },
        // Of its memory. A runtime of containers gives 64 MB, which is too little for what hands tensors from process to process.
        { name: "shm", emptyDir: { medium: "Memory", sizeLimit: `${Math.ceil(memoryMb / 2)}Mi` } },
        ...(own
          ? [
              { name: "pod", emptyDir: {} },
              { name: "scratch", emptyDir: {} },
            ]
          : []),
        ...(volumeMounts.length > 0 && file.volumes
          ? [{ name: "volumes", persistentVolumeClaim: { claimName: file.volumes.claim } }]
          : []),
        {
          name: "token",
          projected: {
            sources: [{ serviceAccountToken: { audience, expirationSeconds: POD_TOKEN_S, path: "token" } }],
          },
        },
      ],
    },
  };
}

/** The agent brings the runtime: whichever container begins first. */
const BEGIN = `import os, runpy, time
program = "${SHARED_FOLDER}/python/svc/_runtime/in_pod.py"
while not os.path.exists(program): time.sleep(0.05)
runpy.run_path(program, run_name="__main__")`;

const SHM_MOUNT = { name: "shm", mountPath: "/dev/shm" };

const CONTAINER_SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

/** What it asks for is what it may use. */
function equal(resources: Readonly<Record<string, string>>): object {
  return { requests: resources, limits: resources };
}

/** On none of these nodes: each by its name, which whoever looks after nodes cannot change as a label. */
function without(nodes: readonly string[]): object {
  const matchFields = nodes.map((node) => ({ key: "metadata.name", operator: "NotIn", values: [node] }));
  return { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] } };
}

/** On the node of the platform's Pod: a volume of one node alone is there. */
function besides(matchLabels: Readonly<Record<string, string>>): object {
  const term = { labelSelector: { matchLabels }, topologyKey: "kubernetes.io/hostname" };
  return { requiredDuringSchedulingIgnoredDuringExecution: [term] };
}
