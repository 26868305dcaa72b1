import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { dockerForTests } from "../docker.ts";
import { allCells, type Cell, killMatrix, type MatrixOptions } from "./kill-matrix.ts";
import { seededRandom } from "./seeded-random.ts";

const ROUNDS = 4;
const CONTAINER_ROUNDS = 2;
const docker = await dockerForTests();

/** What a worker does without descriptors is its function's own affair; `npm run bench -- chaos` looks at that too. */
function holds({ fault, component }: Cell): boolean {
  return fault !== "out of descriptors" || component === "platform";
}

test(
  "callers lose nothing and are answered, whatever part is killed, stopped or cut off under whatever load",
  {
    timeout: 300_000,
  },
  () => play(ROUNDS, {}),
);

test("nor do they when workers are in containers", { skip: docker.skip, timeout: 300_000 }, () =>
  play(CONTAINER_ROUNDS, { driver: "containers", env: docker.env }),
);

async function play(rounds: number, options: Pick<MatrixOptions, "driver" | "env">): Promise<void> {
  const seed = randomInt(1_000_000);
  const random = seededRandom(seed);
  const cells = allCells(options.driver).filter(holds);
  const chosen = Array.from({ length: rounds }, () => cells[Math.floor(random() * cells.length)]!);
  const lines = [`seed ${seed}`];
  const say = (line: string) => lines.push(line);
  // How soon it recovers is measured by the bench: here a deploy on a loaded machine has its time.
  const times = { queued: 200, faultMs: 1_000, recoverMaxMs: 90_000 };
  const report = await killMatrix({ ...options, seed, cells: chosen, ...times, say });
  const none = { lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] };
  assert.deepEqual(report.broken, none, lines.join("\n"));
}
