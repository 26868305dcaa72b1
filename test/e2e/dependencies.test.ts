import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { makeWheels } from "../build/wheels.ts";
import { project, startPlatform, tempDir } from "./platform.ts";

const worker = (name: string, version: string) => `from svc import Endpoint


@Endpoint(name="${name}", dependencies=["six==${version}"])
def ${name}():
    import six
    return {"version": six.__version__, "file": six.__file__}
`;
const WITHOUT = `from svc import Endpoint


@Endpoint(name="bare")
def bare():
    try:
        import six
    except ImportError:
        return {"version": None}
    return {"version": six.__version__}
`;

test("endpoints of one project that pin different versions of a package each get their own, and others none", async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, {
    "older.py": worker("older", "1.15.0"),
    "newer.py": worker("newer", "1.17.0"),
    "bare.py": WITHOUT,
  });
  // Its own cache: what is tested is a first deploy, from the package index.
  const deploy = await platform.svc(["deploy"], {
    cwd: dir,
    env: { SVC_CACHE_DIR: `${platform.dir}/cache`, ...INDEX },
  });
  if (deploy.code !== 0 && /package index cannot be reached/.test(deploy.stderr))
    return t.skip("no package index here");
  assert.equal(deploy.code, 0, deploy.stderr);
  assert.match(deploy.stderr, /Building: (older|newer): installing six 1\.1[57]\.0/);

  const endpoints = await platform.endpoints();
  const output = async (name: string) => {
    const { url } = endpoints.find((endpoint) => endpoint.name === name)!;
    const answer = await platform.call(`${url}/runsync`, { body: { input: {} } });
    assert.equal(answer.json.status, "COMPLETED", answer.text);
    return answer.json.output as { version: string | null; file?: string };
  };
  const [older, newer, bare] = await Promise.all([output("older"), output("newer"), output("bare")]);
  assert.equal(older.version, "1.15.0");
  assert.equal(newer.version, "1.17.0");
  assert.notEqual(older.file, newer.file);
  assert.equal(bare.version, null);

  // The code asks for another version: the endpoint gets it with the deploy.
  const changed = project(t, {
    "older.py": worker("older", "1.16.0"),
    "newer.py": worker("newer", "1.17.0"),
    "bare.py": WITHOUT,
  });
  const again = await platform.svc(["deploy"], {
    cwd: changed,
    env: { SVC_CACHE_DIR: `${platform.dir}/cache`, ...INDEX },
  });
  assert.equal(again.code, 0, again.stderr);
  assert.equal((await output("older")).version, "1.16.0");
  assert.equal((await output("newer")).version, "1.17.0");
});

test("a package of the base image that cannot be installed blocks the endpoint for one clear reason, until it can", async (t) => {
  const wheels = path.join(tempDir(t), "wheels");
  mkdirSync(wheels);
  // The index refuses connections; what lies in the folder is found all the same.
  const platform = await startPlatform(t, {
    PATH: (process.env.PATH ?? "")
      .split(":")
      .filter((dir) => !existsSync(path.join(dir, "uv")))
      .join(":"),
    PIP_INDEX_URL: "http://127.0.0.1:1/simple",
    PIP_FIND_LINKS: wheels,
    PIP_RETRIES: "1",
  });
  const source = `from svc import Endpoint\n\n\n@Endpoint(name="w", dependencies=["numpy"])\ndef w():\n    import numpy\n    return numpy.MARK\n`;
  const dir = project(t, { "w.py": source });
  const reason = /w: numpy could not be installed: the package index cannot be reached\./g;
  for (const attempt of ["the first deploy", "a deploy that changes nothing"]) {
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 1, `${attempt}\n${stderr}`);
    assert.equal(stderr.match(reason)?.length, 1, `${attempt}\n${stderr}`);
    assert.doesNotMatch(stderr, /WARNING|Retrying|Traceback/);
  }
  makeWheels(wheels, [{ name: "numpy", version: "9.9", files: { "numpy/__init__.py": "MARK = 'ours'\n" } }]);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(answer.json.output, "ours", answer.text);
  assert.equal((await platform.svc(["deploy"], { cwd: dir })).code, 0);
});

/** The index settings of whoever runs the tests. */
const INDEX = Object.fromEntries(
  Object.entries(process.env).filter((entry): entry is [string, string] => /^(PIP|UV)_|_proxy$/i.test(entry[0])),
);
