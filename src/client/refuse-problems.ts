import { SvcError } from "../domain/errors.ts";
import type { Plan } from "./records.ts";

/** Throws what the platform would refuse, all of it, before a byte is uploaded. */
export function refuseProblems(plan: Plan): void {
  if (plan.problems.length === 0) return;
  const quota = plan.problems.some((problem) => /quota/i.test(problem));
  throw new SvcError(quota ? "QUOTA_EXCEEDED" : "INVALID_SETTING", plan.problems.join("\n"), {
    help: "Nothing was uploaded and nothing was changed.",
  });
}
