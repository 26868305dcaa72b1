/** The SDK in the kernel of a real notebook, and its line of progress on a terminal. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { SVC } from "../program.ts";
import { environment, execute, kernelOf } from "./notebook/kernel.ts";
import { project, startPlatform } from "./platform.ts";

const WORKER = `from svc import Endpoint

@Endpoint(name="double", workers=(0, 1))
def double(n: int) -> int:
    if n < 0:
        raise ValueError("<b>negative</b>")
    return 2 * n
`;

/** Numbered from 1, as the notebook numbers them. */
const CELLS = [
  "import math, json as j",
  "import svc\nfrom svc import Endpoint",
  "factor = 3\ndef helper(): return factor",
  `import helpers
@Endpoint(name="area", workers=(0, 1))
def area(r: int) -> int:
    !true
    return math.floor(r) * factor + helper()`,
  "svc.deploy(area)",
  area(3),
  `%env SVC_COMMAND=${SVC}`,
  "svc.deploy(area)\nsvc.deploy(area)",
  "await area(2)",
  area(5),
  "await area(2)",
  `# The next line is no range.
@Endpoint(name="bad", workers=(3, 1))
def bad(n: int): ...

svc.deploy(bad)`,
  `import sys
if "ipykernel" not in sys.modules:
    raise RuntimeError("only here")
@Endpoint(name="fails", workers=(0, 1))
def fails(n: int): ...
svc.deploy(fails)`,
  `@Endpoint(name="model", workers=(0, 1))
class Model:
    def predict(self, n: int) -> int:
        return n + factor
factor = 100`,
  `api = Endpoint(name="api", workers=(0, 1))
@api.get("/up")
def up(text: str) -> str:
    return text.upper()
svc.deploy(Model, up)`,
  "await svc.remote(Model).predict(1), await up('a')",
  "svc.deploy(len)",
  "import os, sys\nos.environ['SVC_COMMAND'] = f'{sys.executable} {os.getcwd()}/interrupts.py'",
  "svc.deploy(Model)",
];

/** Stands for a user who interrupts the kernel while the command runs. */
const INTERRUPTS = `import os, pathlib, signal, sys
def end(*_):
    pathlib.Path("interrupted").touch()
    sys.exit(130)
signal.signal(signal.SIGINT, end)
os.kill(os.getppid(), signal.SIGINT)
signal.pause()
`;

function area(factor: number): string {
  return `from __future__ import annotations

factor = ${factor}

@Endpoint(name="area", workers=(0, 1))
def area(r: int) -> list[int]:
    return [math.floor(r) * factor, len(j.dumps({}))]

svc.deploy(area)
print("deployed")`;
}

test("svc.deploy puts what cells declare live, leaves what has not changed, and says in the cells' lines why it cannot", async (t) => {
  const bin = await environment(t);
  if (bin === undefined) return;
  const platform = await startPlatform(t);
  const cwd = project(t, { "helpers.py": "", "interrupts.py": INTERRUPTS }, "cells");
  const env = kernelOf(platform, bin);
  const outputs = await execute(bin, CELLS, cwd, env);
  const error = (cell: number) => outputs[cell - 1]!.flatMap(({ evalue }) => evalue ?? []).join();
  const said = (cell: number) => outputs[cell - 1]!.flatMap(({ text }) => text ?? []).join("");
  const value = (cell: number) => outputs[cell - 1]!.flatMap(({ data }) => data?.["text/plain"] ?? []).join();

  assert.match(error(5), /names of other cells, .*: factor \(In\[3\]\), helper \(In\[3\]\)\. Move/);
  assert.match(error(5), /a line with % or !.*\n.*import files of this folder, .*: helpers\./);
  assert.match(error(6), /the svc command.* is not found on the PATH .*SVC_COMMAND/);
  assert.equal(error(8), "");
  assert.match(said(8), /\+ create +area .*Deployed cells\/production\..*\nNo changes: cells\/production/s);
  assert.equal(value(9), "[6, 2]");
  assert.equal(error(10), "");
  assert.match(said(10), /~ update +area .*\ndeployed\n$/s);
  assert.equal(value(11), "[10, 2]");
  assert.match(error(12), /--> In\[12\]:2:\d+\n +\|\n +2 \| @Endpoint\(name="bad"/);
  assert.match(error(13), /Cell In\[13\], line 3.*only here/s);
  assert.equal(error(15), "");
  assert.equal(value(16), "(101, 'A')");
  assert.match(error(17), /takes functions and classes that an Endpoint declares, and it, not <built-in/);
  assert.ok(outputs[19 - 1]!.some(({ ename }) => ename === "KeyboardInterrupt"));
  assert.ok(existsSync(path.join(cwd, ".svc/notebook/model/interrupted")), "the command is interrupted too");
  const live = (await platform.endpoints()).map(({ name }) => name).sort();
  assert.deepEqual(live, ["api", "area", "fails", "model"]);
  const kept = readFileSync(path.join(cwd, ".svc/notebook/area/worker.py"), "utf8");
  assert.match(
    kept,
    /^from __future__ import annotations\nfrom svc import Endpoint\nimport json as j\nimport math\n\n/,
  );

  writeFileSync(path.join(cwd, "script.py"), `import svc\n${WORKER}\nsvc.deploy(double)`);
  for (const args of [["script.py"], ["-c", `import svc\n${WORKER}\nsvc.deploy(double)`]]) {
    const script = await runProcess(path.join(bin, "python"), args, { cwd, env });
    assert.match(
      script.stderr,
      /svc\.DeployFailed: .*this is none: write the code to a file, worker\.py, and run svc deploy/,
    );
  }
});

test("a notebook shows jobs as tables and maps with a line that moves; a cell's endpoint says how it is deployed", async (t) => {
  const bin = await environment(t);
  if (bin === undefined) return;
  const platform = await startPlatform(t);
  const cwd = project(t, { "notes.ipynb": "{}" }, "notes");
  const refused = await platform.svc(["deploy"], { cwd });
  assert.match(
    refused.stderr,
    /Notebooks are not read \(notes\.ipynb\): call svc\.deploy\(function\) in it, or .* %%writefile worker\.py/,
  );
  const cells = [
    WORKER,
    "await double(1)",
    `%%writefile worker.py\n${WORKER}`,
    `import subprocess\nsubprocess.run([${JSON.stringify(SVC)}, "deploy"], check=True, capture_output=True).returncode`,
    "from worker import double\nlist(double.map(range(30), concurrency=2, progress=True))",
    "job = double.spawn(21)\njob.wait()\njob",
    "failed = double.spawn(-1)\ntry:\n    failed.wait()\nexcept Exception:\n    pass\nfailed",
    "results = list(double.map([1, -1, 2], return_exceptions=True, progress=True))",
  ];
  const env = kernelOf(platform, bin);
  const outputs = await execute(bin, cells, cwd, env);
  const errors = (cell: number) => outputs[cell]!.flatMap(({ evalue }) => evalue ?? []).join();
  const html = (cell: number) => outputs[cell]!.flatMap(({ data }) => data?.["text/html"] ?? []).join();
  const moved = (cell: number) => outputs[cell]!.flatMap((one) => (one.name === "stderr" ? one.text! : [])).join("");

  assert.match(
    errors(1),
    /'double' is not deployed: .*Run svc\.deploy\(the function\) .*%%writefile worker\.py, !svc deploy/,
  );
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
