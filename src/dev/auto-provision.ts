/**
 * Every endpoint live at the start. Those that .platform/resources.pkl knows, that are still there and configured as they
 * were, are used as they are (their code follows with the first call); the others are deployed, a few at a time.
 */
import type { LayersBuild } from "../build/build-layers.ts";
import type { ControlPlane } from "../client/control-plane.ts";
import { SvcError } from "../domain/errors.ts";
import { PROVISIONS_AT_ONCE, PROVISIONS_UNASKED_MAX } from "../domain/limits.ts";
import { configurationHash, liveName } from "./live.ts";
import type { Provisioner } from "./provisioner.ts";
import type { ProvisionedEndpoints } from "./resources-file.ts";
import type { Screen } from "./screen.ts";

export async function autoProvision(
  build: LayersBuild,
  provisioner: Provisioner,
  controlPlane: ControlPlane,
  known: ProvisionedEndpoints,
  screen: Screen,
): Promise<void> {
  const names = Object.keys(build.manifest.resources);
  const reused = await reusable(build, names, provisioner, controlPlane, known);
  const wanted = names.filter((name) => !reused.has(name));
  if (reused.size > 0) screen.note(`Re-used: ${[...reused].map(liveName).join(", ")}`);
  if (wanted.length > PROVISIONS_UNASKED_MAX && !(await agreed(screen, wanted))) {
    screen.note("Nothing was deployed: each endpoint is deployed with its first call.");
    return;
  }
  const waiting = [...wanted];
  const work = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
      await deployOne(name, build, provisioner, screen);
  };
  await Promise.all(Array.from({ length: PROVISIONS_AT_ONCE }, work));
}

/** One that cannot be deployed does not keep the others, or the server, from starting. */
async function deployOne(name: string, build: LayersBuild, provisioner: Provisioner, screen: Screen): Promise<void> {
  try {
    await provisioner.ensure(build, name);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    screen.warn(`${liveName(name)} was not deployed: ${[error.message, error.help ?? ""].join(" ").trim()}`);
  }
}

async function reusable(
  build: LayersBuild,
  names: readonly string[],
  { place }: Provisioner,
  controlPlane: ControlPlane,
  known: ProvisionedEndpoints,
): Promise<Set<string>> {
  if (Object.keys(known).length === 0) return new Set();
  const app = await controlPlane.app(place.app);
  const there = app?.environments.find(({ name }) => name === place.environment)?.endpoints ?? [];
  const ids = new Set(there.map(({ id }) => id));
  const same = names.filter((name) => {
    const record = known[liveName(name)];
    return (
      record !== undefined &&
      ids.has(record.id) &&
      record.platformUrl === controlPlane.platform.url &&
      record.configurationHash === configurationHash(build, name)
    );
  });
  return new Set(same);
}

async function agreed(screen: Screen, names: readonly string[]): Promise<boolean> {
  screen.note(`To be deployed (${names.length}): ${names.map(liveName).join(", ")}`);
  return screen.confirm(`Deploy ${names.length} endpoints now?`, false);
}
