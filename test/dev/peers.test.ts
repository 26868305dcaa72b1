import assert from "node:assert/strict";
import { test } from "node:test";
import type { LayersBuild } from "../../src/build/build-layers.ts";
import { listProjectFiles } from "../../src/build/project-files.ts";
import { scanProject } from "../../src/build/scan.ts";
import { possiblePeers } from "../../src/dev/peers.ts";
import { project } from "../e2e/platform.ts";

const endpoint = (name: string, body = "return 1") =>
  `from svc import Endpoint\n@Endpoint(name="${name}")\ndef ${name}(): ${body}\n`;

test("functions that other code mentions may be called by it; a name in quotes or in another word is no mention", async (t) => {
  const dir = project(t, {
    "infer.py": endpoint("infer"),
    "pipeline.py": `import helper\n${endpoint("pipeline", "return helper.run()")}`,
    "helper.py": 'import infer\ndef run(): return infer.infer()\nNOTE = "alone"\nalone_again = 1\n',
    "alone.py": endpoint("alone"),
    "same.py": `${endpoint("first")}${endpoint("second", "return first()").replace("from svc import Endpoint\n", "")}`,
  });
  const scan = await scanProject({ projectDir: dir, environment: { PATH: process.env.PATH } });
  const build = { scan, files: listProjectFiles(dir).files } as unknown as LayersBuild;
  assert.deepEqual(possiblePeers(build, dir).sort(), ["first", "infer"]);
});
