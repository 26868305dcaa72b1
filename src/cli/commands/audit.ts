import { History } from "../../client/history.ts";
import { command, jsonFlag, pastTime, valueFlag, wholeNumber } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { dateTime } from "../format.ts";

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100_000;

export const auditCommand = command({
  brief: "Show who did what",
  text: "Shows who made and revoked keys, set secrets, deployed, rolled back, removed and logged in, and what was refused, newest first. Needs a key with the scope admin.",
  examples: [
    ["svc audit", "The last 50 acts"],
    ["svc audit --since 7d --action secret.set", "Secrets that were set in a week"],
    ["svc audit --since 1d --json", "A day, for programs"],
  ],
  flags: {
    since: valueFlag("TIME", "Only since then: 10m, 2h or 1d ago, 14:30, 2026-11-22T14:30", pastTime),
    action: valueFlag("ACTION", "Only this: key.create, secret.set, build.deploy, login, access.refused, …"),
    limit: valueFlag("N", `At most so many; default: ${LIMIT_DEFAULT}`, wholeNumber(1, LIMIT_MAX)),
    json: jsonFlag,
  },
  aliases: { n: "limit" },
  async run({ since: from, action, limit = LIMIT_DEFAULT, json }) {
    const { terminal } = this;
    const { controlPlane } = await requirePlatform(this);
    const { rows, more } = await new History(controlPlane.platform).audit({ from, action }, limit);
    if (json) return terminal.json(rows);
    if (rows.length === 0) return terminal.note("Nothing of that kind was done.");
    await terminal.table(
      ["TIME", "WHO", "FROM", "ACTION", "WHAT", "DETAIL"],
      rows.map((entry) => [
        dateTime(entry.at),
        entry.keyName,
        entry.address === "" ? "-" : entry.address,
        entry.action,
        entry.target,
        entry.detail,
      ]),
      ["TIME", "ACTION"],
    );
    if (more) terminal.note(`There are more; --limit ${limit * 10} shows them.`);
  },
});
