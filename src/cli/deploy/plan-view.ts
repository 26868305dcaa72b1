import type { Plan, PlannedChange } from "../../client/records.ts";
import type { Terminal } from "../terminal.ts";
import type { Target } from "./target.ts";

const MARKS = { create: "+", update: "~", unchanged: "=", remove: "-" } as const;

/** Shown before anything is uploaded; a note, so that `--json` stays clean. */
export function showPlan(terminal: Terminal, target: Target, plan: Plan): void {
  const { green, yellow, red, dim, bold } = terminal.errColors;
  const paint = { create: green, update: yellow, unchanged: dim, remove: red };
  const place = target.newApp ? " (new app)" : target.newEnvironment ? " (new environment)" : "";
  terminal.note(bold(`Plan for ${target.app}/${target.environment}${place}`));
  const width = Math.max(0, ...plan.changes.map((change) => change.name.length));
  for (const change of [...plan.changes].sort(byAction)) {
    const what = change.details.length > 0 ? change.details.join(", ") : change.kind;
    const line = `  ${MARKS[change.action]} ${change.action.padEnd(10)} ${change.name.padEnd(width)}  ${what}`;
    terminal.note(paint[change.action](line.trimEnd()));
  }
}

export function changesNothing(plan: Plan): boolean {
  return plan.changes.every((change) => change.action === "unchanged");
}

const ORDER = ["create", "update", "remove", "unchanged"];

function byAction(a: PlannedChange, b: PlannedChange): number {
  return ORDER.indexOf(a.action) - ORDER.indexOf(b.action) || a.name.localeCompare(b.name);
}
