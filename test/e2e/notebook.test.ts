/** The SDK in the kernel of a real notebook, and its line of progress on a terminal. */
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { pythonEnvironment } from "../../bench/processes.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

interface Output {
  readonly output_type: string;
  readonly name?: string;
  readonly text?: string;
  readonly evalue?: string;
  readonly data?: Readonly<Record<string, string>>;
}

const WORKER = `from svc import Endpoint

@Endpoint(name="double", workers=(0, 1))
def double(n: int) -> int:
    if n < 0:
        raise ValueError("<b>negative</b>")
    return 2 * n
`;

test("a notebook shows jobs as tables and maps with a line that moves; a cell's endpoint says how it is deployed", async (t) => {
  let bin: string;
  try {
    bin = await pythonEnvironment("notebook", ["ipykernel", "nbclient"]);
  } catch {
    return t.skip("ipykernel and nbclient are not installed here and the package index cannot be reached");
  }
  const platform = await startPlatform(t);
  const cwd = project(t, { "notes.ipynb": "{}" }, "notes");
  const refused = await platform.svc(["deploy"], { cwd });
  assert.match(refused.stderr, /Notebooks are not read \(notes\.ipynb\): begin the cell .* %%writefile worker\.py/);
  const cells = [
    WORKER,
    "await double(1)",
    `%%writefile worker.py\n${WORKER}`,
    `import subprocess\nsubprocess.run([${JSON.stringify(path.join(ROOT, "bin/svc"))}, "deploy"], check=True, capture_output=True).returncode`,
    "from worker import double\nlist(double.map(range(30), concurrency=2, progress=True))",
    "job = double.spawn(21)\njob.wait()\njob",
    "failed = double.spawn(-1)\ntry:\n    failed.wait()\nexcept Exception:\n    pass\nfailed",
    "results = list(double.map([1, -1, 2], return_exceptions=True, progress=True))",
  ];
  const env = {
    PATH: `${bin}:${process.env.PATH}`,
    HOME: platform.dir,
    PYTHONPATH: path.join(ROOT, "python/src"),
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    CI: "1",
    NO_COLOR: "1",
  };
  const script = path.join(import.meta.dirname, "notebook/execute.py");
  const run = await runProcess(path.join(bin, "python"), [script], { cwd, env, input: JSON.stringify(cells) });
  assert.equal(run.code, 0, run.stderr);
  const outputs = JSON.parse(run.stdout) as Output[][];
  const errors = (cell: number) => outputs[cell]!.flatMap(({ evalue }) => evalue ?? []).join();
  const html = (cell: number) => outputs[cell]!.flatMap(({ data }) => data?.["text/html"] ?? []).join();
  const moved = (cell: number) => outputs[cell]!.flatMap((one) => (one.name === "stderr" ? one.text! : [])).join("");

  assert.match(errors(1), /'double' is not deployed: .*%%writefile worker\.py.*!svc deploy/);
  for (const cell of [2, 3, 4, 5, 6, 7]) assert.equal(errors(cell), "", `cell ${cell}`);
  assert.match(moved(4), /double {2}\[#{20}\] {2}30\/30 {2}[\d.]+\/s {2}in 0:\d\d *\n$/);
  assert.match(html(5), /<table>.*<th>status<\/th><td>COMPLETED<\/td>.*<th>output<\/th><td>42<\/td>/s);
  assert.match(html(6), /<td>FAILED<\/td>.*&lt;b&gt;negative&lt;\/b&gt;/s);
  assert.doesNotMatch(html(6), /<b>/);
  assert.match(moved(7), /3\/3 {2}1 failed/);

  const python = `import svc, sys; double = svc.function("double"); print(sum(double.map(iter([1, 2]), progress=True)))`;
  const away = await runProcess(path.join(bin, "python"), ["-c", python], { cwd, env });
  assert.equal(away.stdout, "6\n");
  assert.match(away.stderr, /^double {2}2 {2}[\d.]+\/s {2}in 0:\d\d\n$/, "one line where nothing moves");
});
