import type { BuildRecord } from "../../client/administration.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, envFlag, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { administer } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { waitReady } from "../deploy/wait-ready.ts";
import { dateTime, formatDuration } from "../format.ts";

/** Makes an earlier build live again, by default the newest that was ready, and waits as a deploy does. */
export const rollbackCommand = command({
  brief: "Make an earlier build live again",
  text: "Code, settings and environment variables are those of the build; secrets keep their present values. Running work is finished first.",
  examples: [
    ["svc rollback", "To the newest build before the live one that was ready"],
    ["svc rollback --list", "Which builds there are, and how each fared"],
    ["svc rollback --to k3v9x0q2m5w8ab --env staging", "To a named build"],
  ],
  flags: {
    to: valueFlag("BUILD", "Build to go back to; default: the newest before the live one that was ready"),
    list: switchFlag("Show the builds and change nothing"),
    keepRemoved: switchFlag("Keep endpoints that the build does not have"),
    detach: switchFlag("Do not wait until the endpoints take calls"),
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
    if (flags.to === "") throw new SvcError("USAGE", "--to needs the id of a build.", { help: "svc rollback --list" });
    const deployment = await controlPlane.rollback(place, flags.to, flags.keepRemoved);
    const { buildId, endpoints, removed } = deployment;
    this.interrupt.note = "The rollback goes on without this command. svc status shows the state.";
    if (!flags.detach) {
      await waitReady(terminal, controlPlane, deployment, {
        failed: `The build ${buildId} is live again, but cannot run.`,
        help: "svc rollback --list shows each build and how it fared; --to takes another one.",
      });
    }
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
  const { bold, red } = terminal.colors;
  await terminal.table(
    ["BUILD", "DEPLOYED", "STATE", "TOOK", "BY", "COMMIT", "MESSAGE"],
    builds.map((build) => [
      build.id,
      dateTime(build.createdAt),
      build.live ? bold(`live, ${build.verdict}`) : build.verdict === "failed" ? red(build.verdict) : build.verdict,
      build.verdictAt === null ? "" : formatDuration(build.verdictAt - build.createdAt),
      build.keyName,
      build.gitCommit,
      build.message,
    ]),
    ["BUILD", "DEPLOYED", "STATE", "TOOK"],
  );
  const failed = builds.filter(({ verdict }) => verdict === "failed");
  if (failed.length > 0) terminal.out();
  for (const { id, reason } of failed) terminal.out(`${id} failed: ${reason.split("\n")[0]}`);
}
