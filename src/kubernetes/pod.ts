/** A Pod as far as it is read: an API server may send anything else beside. */
import { z } from "zod";

const state = z.object({
  waiting: z.object({ reason: z.string().optional(), message: z.string().optional() }).optional(),
  running: z.object({}).optional(),
  terminated: z
    .object({ reason: z.string().optional(), exitCode: z.number().optional(), message: z.string().optional() })
    .optional(),
});

const schema = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    deletionTimestamp: z.string().optional(),
  }),
  spec: z.object({ nodeName: z.string().optional() }).default({}),
  status: z
    .object({
      startTime: z.string().optional(),
      phase: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().optional(),
            message: z.string().optional(),
          }),
        )
        .optional(),
      containerStatuses: z
        .array(z.object({ state: state.optional(), lastState: state.optional(), restartCount: z.number().optional() }))
        .optional(),
    })
    .default({}),
});

export type Pod = z.infer<typeof schema>;

/** Throws ZodError. */
export const readPod = (value: unknown): Pod => schema.parse(value);

/** It has ended by itself, or was evicted. */
export function isOver({ status }: Pod): boolean {
  return status.phase === "Failed" || status.phase === "Succeeded";
}

/** The kubelet of its node has said something of it. */
export function isBegun({ status }: Pod): boolean {
  return status.startTime !== undefined || (status.containerStatuses ?? []).length > 0;
}

/** All its programs run. */
export function isRunning({ status }: Pod): boolean {
  const all = status.containerStatuses ?? [];
  return all.length > 0 && all.every(({ state }) => state?.running !== undefined);
}

/** What it waits for or what is wrong with it, in words: "no node has room for it: 0/2 nodes are available: 2 Insufficient cpu". */
export function podWords({ metadata, spec, status }: Pod): string {
  if (metadata.deletionTimestamp !== undefined) return "it is being deleted";
  if (status.phase === "Failed")
    return `it failed: ${[status.reason, status.message].filter(Boolean).join(": ") || "its program ended"}`;
  if (status.phase === "Succeeded") return "its program ended";
  const scheduled = status.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") {
    const gated = scheduled.reason === "SchedulingGated";
    return gated ? "its scheduling waits for a gate" : `no node has room for it: ${said(scheduled)}`;
  }
  const containers = status.containerStatuses ?? [];
  for (const { state, lastState } of containers) {
    if (state?.waiting?.reason !== undefined && state.waiting.reason !== "ContainerCreating")
      return `its container waits: ${said(state.waiting)}${lastLine(lastState?.terminated?.message)}${loginWords(state.waiting)}`;
    if (state?.terminated !== undefined) {
      const { reason = "", exitCode = "", message } = state.terminated;
      return `its program ended: ${`${reason} ${exitCode}`.trim()}${lastLine(message)}`;
    }
  }
  const restarts = Math.max(0, ...containers.map(({ restartCount = 0 }) => restartCount));
  if (isRunning({ metadata, spec, status })) return restarts > 0 ? `it joins again (restart ${restarts})` : "it joins";
  if (scheduled?.status !== "True") return "it waits for a node";
  const isBeing = isBegun({ metadata, spec, status });
  return isBeing ? "its container is being started" : `its node ${spec.nodeName ?? ""} has not begun it`;
}

/** The scheduler looked, and found no node for it. */
export function isUnplaced({ status }: Pod): boolean {
  const { conditions = [] } = status;
  return conditions.some(({ type, reason }) => type === "PodScheduled" && reason === "Unschedulable");
}

/** Words for what does not pass by itself: no node, no image, a program that ends; undefined: all is as usual. One that joined may have been begun anew before. */
export function podTrouble(pod: Pod, hasJoined = false): string | undefined {
  const { containerStatuses = [] } = pod.status;
  const isStuck = containerStatuses.some(({ state, restartCount = 0 }) => {
    const waits = state?.waiting?.reason ?? "ContainerCreating";
    return waits !== "ContainerCreating" || state?.terminated !== undefined || (restartCount > 0 && !hasJoined);
  });
  return isUnplaced(pod) || isStuck || isOver(pod) ? podWords(pod) : undefined;
}

const PULL_REASONS = ["ErrImagePull", "ImagePullBackOff"];
const REFUSED_PULL = /unauthori[sz]ed|authori[sz]ation|access denied|forbidden/i;

/** What to do about an image that its registry does not give to everybody. */
function loginWords({
  reason = "",
  message = "",
}: {
  reason?: string | undefined;
  message?: string | undefined;
}): string {
  if (!PULL_REASONS.includes(reason) || !REFUSED_PULL.test(message)) return "";
  return ". Nodes need a login for its registry: a Secret that is named in imagePullSecrets of the pools (hosts.imagePullSecrets of the chart). One that an endpoint has counts for Docker alone";
}

/** What a program said last, behind what is said of it. */
function lastLine(message = ""): string {
  const line = message.trim().split("\n").at(-1)!.replace(/\.$/, "");
  return line === "" ? "" : `: ${line}`;
}

function said({
  reason = "",
  message = "",
}: {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}): string {
  return [reason, message.replace(/\.$/, "")].filter((text) => text !== "").join(": ");
}
