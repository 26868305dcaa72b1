/** Platforms that share the endpoints of one database: who has what. */
import assert from "node:assert/strict";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import { eventually } from "../eventually.ts";
import type { PostgresServer } from "../postgres.ts";
import { type ReplicaStatus, type Replicas, seenBy } from "./replicas.ts";

export const SHARES = { SVC_SHARE_SHARDS: "1" };

/** Resolves who has how many shards, when each of `platforms` has some and nobody else has. */
export async function shared(dataDir: string, urls: readonly string[]): Promise<readonly ReplicaStatus[]> {
  let seen: readonly ReplicaStatus[] = [];
  await eventually(async () => {
    seen = await seenBy(dataDir);
    const having = seen.filter(({ shards }) => shards > 0);
    assert.deepEqual(having.map(({ url }) => url).sort(), [...urls].sort(), JSON.stringify(seen));
    assert.equal(
      having.reduce((sum, { shards }) => sum + shards, 0),
      256,
    );
    // Where one of three comes or goes, only its part moves.
    for (const { shards } of having) assert.ok(shards > 256 / urls.length / 2, JSON.stringify(seen));
  });
  return seen;
}

/** Of endpoints the url of the platform that has each, by name. */
export async function ownersOf(
  replicas: Replicas,
  { sql }: PostgresServer,
  database: string,
): Promise<Map<string, string>> {
  const rows = JSON.parse(
    await sql(
      `SELECT json_agg(json_build_array(s.shard, r.url)) FROM queue_shards s JOIN platform_replicas r ON r.id = s.owner`,
      database,
    ),
  ) as [number, string][];
  const urls = new Map(rows);
  const endpoints = await replicas.first.endpoints();
  return new Map(endpoints.map(({ id, name }) => [name, urls.get(shardOf(id)) ?? ""]));
}
