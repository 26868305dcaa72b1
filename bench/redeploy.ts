/** `--rounds N` deploys of new code under runsync, load-balanced and WebSocket calls. Not a race: failed calls count. */
import { redeploy } from "../test/campaign/redeploy.ts";
import { atMost, type Bench } from "./bench.ts";

export const bench: Bench = async ({ rounds }) => {
  const { done, failed } = await redeploy(rounds);
  for (const line of failed.slice(0, 20)) console.error(line);
  return {
    conditions: { deploys: `${rounds}, one after the other, 2 callers of each kind` },
    figures: done,
    bars: { "failed calls": atMost(failed.length, 0) },
  };
};
