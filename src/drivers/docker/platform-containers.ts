/** A platform's own containers on an engine that others use as well: known by a label with its data directory's id. */
import { createHash } from "node:crypto";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { CONTAINERS_LOOK_MS, CONTAINERS_SETTLE_MAX_MS } from "../../domain/limits.ts";
import { removeContainer } from "./container-life.ts";
import { answered, type Engine } from "./engine.ts";
import { LABEL } from "./labels.ts";

/** Names the containers and the network of the platform with this data directory. */
export function platformIdOf(dataDir: string): string {
  return createHash("sha256").update(path.resolve(dataDir)).digest("hex").slice(0, 12);
}

/** Also those that have ended. */
export function platformContainers(engine: Engine, platformId: string) {
  return answered(engine.listContainers({ all: true, filters: { label: [`${LABEL.platform}=${platformId}`] } }));
}

/** Also those that were on their way out, and those that look at an image. Gives up after CONTAINERS_SETTLE_MAX_MS. */
export async function removePlatformContainers(engine: Engine, platformId: string): Promise<void> {
  const end = performance.now() + CONTAINERS_SETTLE_MAX_MS;
  for (;;) {
    const left = await platformContainers(engine, platformId).catch(() => []);
    if (left.length === 0 || performance.now() > end) return;
    await Promise.all(left.map(({ Id }) => removeContainer(engine.getContainer(Id))));
    await delay(CONTAINERS_LOOK_MS); // The engine may still be removing one.
  }
}
