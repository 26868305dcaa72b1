/** Made-up inputs of every kind; `--rounds 5` is about a million. Not a race: the figures that count are zeros. */
import { randomInt } from "node:crypto";
import path from "node:path";
import { runProcess } from "../src/lib/run-process.ts";
import { fuzz } from "../test/campaign/fuzz/fuzz.ts";
import { ROOT } from "../test/e2e/platform-process.ts";
import { atLeast, atMost, type Bench } from "./bench.ts";

const TEXTS = 30_000;
const REQUESTS = 60_000;
const FRAMES = 25_000;
const RSS_MAX_MB = 600;

export const bench: Bench = async ({ rounds }) => {
  const seed = Number(process.env.SVC_BENCH_SEED ?? randomInt(1_000_000));
  console.error(`seed ${seed}`);
  const scale = rounds;
  const { inputs, broken, rssMb } = await fuzz({ seed, texts: TEXTS * scale, requests: REQUESTS * scale });
  const frames = FRAMES * scale;
  // They have tests of their own, which take the number of frames and the seed from the environment.
  const env = {
    ...process.env,
    PYTHONPATH: path.join(ROOT, "python/src"),
    SVC_FUZZ_FRAMES: String(frames),
    SVC_FUZZ_SEED: String(seed),
  };
  const run = (test: string, args: string[]) => runProcess(test, args, { cwd: ROOT, env });
  const framed = await run(process.execPath, [path.join(ROOT, "test/run.ts"), "worker-link/fuzz"]);
  // The other way, to workers.
  const toWorkers = await run("python3", ["-m", "unittest", "-q", "python/tests/test_fuzz.py"]);
  const wrong = [...broken];
  if (framed.code !== 0) wrong.push(framed.stdout);
  if (toWorkers.code !== 0) wrong.push(toWorkers.stderr);
  for (const line of wrong) console.error(line);
  const all = Object.values(inputs).reduce((sum, count) => sum + count, 2 * frames);
  return {
    conditions: {
      seed: `${seed} (SVC_BENCH_SEED plays it again)`,
      inputs: JSON.stringify({ ...inputs, frames, "frames to workers": frames }),
    },
    figures: { inputs: all, "platform's RSS, MB": rssMb },
    bars: {
      "crashes, hangs and answers of 500": atMost(wrong.length, 0),
      "RSS of the platform": atMost(rssMb, RSS_MAX_MB, " MB"),
      ...(rounds >= 5 ? { inputs: atLeast(all, 1_000_000) } : {}),
    },
  };
};
