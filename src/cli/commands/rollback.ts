import type { BuildRecord } from "../../client/administration.ts";
import { appFlag, command, envFlag, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { administer } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { dateTime } from "../format.ts";

/** Makes an earlier build live again, by default the one before the live one. */
export const rollbackCommand = command({
  brief: "Make an earlier build live again",
  text: "Code, settings and environment variables are those of the build; secrets keep their present values. Running work is finished first.",
  examples: [
    ["svc rollback", "To the build before the live one"],
    ["svc rollback --list", "Which builds there are"],
    ["svc rollback --to k3v9x0q2m5w8ab --env staging", "To a named build"],
  ],
  flags: {
    to: valueFlag("BUILD", "Build to go back to; default: the one before the live one"),
    list: switchFlag("Show the builds and change nothing"),
    keepRemoved: switchFlag("Keep endpoints that the build does not have"),
    app: appFlag,
    env: envFlag,
    json: jsonFlag,
  },
  aliases: { a: "app", e: "env" },
  async run(flags) {
    const { terminal } = this;
    const { controlPlane, administration } = await administer(this);
    const { app, environment } = await resolveTarget(controlPlane, this.cwd, flags);
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
  },
});

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
