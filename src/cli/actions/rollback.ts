import { Administration, type BuildRecord } from "../../client/administration.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { dateTime } from "../format-time.ts";

interface Flags {
  readonly to?: string;
  readonly list?: boolean;
  readonly keepRemoved?: boolean;
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

/** Makes an earlier build live again, by default the one before the live one. */
export async function rollback(this: CliContext, flags: Flags): Promise<void> {
  const { terminal } = this;
  const connection = await findPlatform(this);
  if (connection === undefined) throw noPlatform();
  const { app, environment } = await resolveTarget(connection.controlPlane, this.cwd, flags);
  const administration = new Administration(connection.controlPlane.platform);
  const place = { app, environment };
  const builds = await administration.builds(place);
  if (flags.list) return list(this, builds, flags.json);
  const { buildId, endpoints, removed } = await administration.rollback(place, flags.to, flags.keepRemoved);
  const names = endpoints.map(({ name }) => name);
  const from = builds.find(({ live }) => live)?.id ?? null;
  if (flags.json) return terminal.json({ ...place, buildId, from, endpoints: names, removed });
  if (from === buildId) return terminal.out(`${app}/${environment} runs the build ${buildId} already.`);
  const made = builds.find(({ id }) => id === buildId);
  const when = made === undefined ? "" : ` of ${dateTime(made.createdAt)}`;
  terminal.out(`${app}/${environment} runs the build ${buildId}${when} again: ${names.join(", ")}.`);
  if (removed.length > 0) terminal.out(`Removed: ${removed.join(", ")}.`);
  if (from !== null) terminal.note(`Back again: svc rollback --to ${from}`);
}

async function list({ terminal }: CliContext, builds: readonly BuildRecord[], json = false): Promise<void> {
  if (json) return terminal.json(builds);
  if (builds.length === 0) return terminal.note("Nothing was deployed here yet.");
  await terminal.table(
    ["BUILD", "DEPLOYED", "LIVE", "ENDPOINTS"],
    builds.map(({ id, createdAt, live, endpoints }) => [
      id,
      dateTime(createdAt),
      live ? "live" : "",
      endpoints.join(", "),
    ]),
  );
}
