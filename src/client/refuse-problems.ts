import { SvcError } from "../domain/errors.ts";

/** Throws what the platform would refuse, all of it, before a byte is uploaded. */
export function refuseProblems(problems: readonly string[]): void {
  if (problems.length === 0) return;
  const quota = problems.some((problem) => /quota/i.test(problem));
  throw new SvcError(quota ? "QUOTA_EXCEEDED" : "INVALID_SETTING", problems.join("\n"), {
    help: "Nothing was uploaded and nothing was changed.",
  });
}
