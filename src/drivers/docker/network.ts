/** The network of a platform's containers: a bridge on which they reach the platform and the world, not each other. */
import { answered, type Engine, engineFailed, hasStatus } from "./engine.ts";

export interface ContainerNetwork {
  readonly name: string;
  /** This machine's own address on it; undefined where the engine runs in a machine of its own. */
  readonly hostAddress: string | undefined;
}

export async function ensureNetwork(
  engine: Engine,
  name: string,
  labels: Readonly<Record<string, string>>,
): Promise<ContainerNetwork> {
  try {
    const there = await answered(engine.getNetwork(name).inspect()).catch((error) => {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    });
    if (there === undefined) {
      const made = engine.createNetwork({
        Name: name,
        Driver: "bridge",
        CheckDuplicate: true,
        Labels: labels,
        Options: { "com.docker.network.bridge.enable_icc": "false" },
      });
      await answered(made);
    }
    const found = there ?? (await answered(engine.getNetwork(name).inspect()));
    const configs = (found.IPAM?.Config ?? []) as { Gateway?: string }[];
    return { name, hostAddress: configs.find(({ Gateway }) => Gateway?.includes("."))?.Gateway };
  } catch (error) {
    throw engineFailed(`The network ${name} cannot be made`, error);
  }
}

/** Only one that this platform made; one that is still used stays. */
export async function removeNetwork(engine: Engine, name: string): Promise<void> {
  await answered(engine.getNetwork(name).remove()).catch(() => {});
}
