/** The platforms on a database, as one of them sees them. */
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { STATUS_ANSWER_MAX_MS } from "../../domain/limits.ts";
import { formatAge } from "../format.ts";

const status = z.object({
  /** Which of them was asked. */
  id: z.string(),
  /** Calls that wait there for a platform that has the database. */
  held: z.number(),
  replicas: z.array(
    z.object({
      id: z.string(),
      place: z.string(),
      url: z.string(),
      /** Where others reach it; "" while it does not listen. */
      address: z.string(),
      version: z.string(),
      owns: z.boolean(),
      /** How many shards it has, where they are shared. */
      shards: z.number().optional(),
      /** Milliseconds since it was last heard of, by the database's clock. */
      silentMs: z.number(),
    }),
  ),
});

export type ReplicasStatus = z.output<typeof status>;

/** Undefined when the platform does not say. */
export async function askReplicas(socketPath: string): Promise<ReplicasStatus | undefined> {
  const socket = connect(socketPath);
  const late = setTimeout(() => socket.destroy(new Error("no answer")), STATUS_ANSWER_MAX_MS);
  try {
    return status.parse(JSON.parse(await text(socket)));
  } catch {
    return undefined;
  } finally {
    clearTimeout(late);
  }
}

/** One line each, and how long ago each was heard of. */
export function replicaLines({ id, held, replicas }: ReplicasStatus): string[] {
  const total = replicas.reduce((sum, { shards = 0 }) => sum + shards, 0);
  const width = Math.max(...replicas.map(({ url }) => url.length));
  const lines = replicas.map((one) => {
    const owns = one.owns ? "has the database" : undefined;
    const part = one.shards === undefined ? undefined : `${one.shards} of ${total} shards`;
    const does = [owns, part].filter((word) => word !== undefined).join(", ") || "takes calls for it";
    const which = one.id === id ? " (this one)" : "";
    return `${one.url.padEnd(width)}  ${does}${which}, heard of ${formatAge(one.silentMs)} ago, ${one.version}, ${one.place}`;
  });
  return [
    String(replicas.length),
    ...lines,
    ...(held > 0 ? [`${held} calls wait for a platform with the database`] : []),
  ];
}
