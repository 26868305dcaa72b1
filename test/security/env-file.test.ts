/** A project from elsewhere brings its own `.env`: the address in it must not collect the key of the shell. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { ROOT, svc, tempDir } from "../e2e/platform.ts";

async function collector(t: TestContext) {
  const keys: string[] = [];
  const server = createServer((req, res) => {
    keys.push(`${req.headers.authorization ?? ""} ${req.url}`);
    res.writeHead(200, { "content-type": "application/json" }).end('{"data":{}}');
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return { keys, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const CALL = `
import svc
print(svc.EndpointClient(name="infer", app="a").runsync({}))
`;

test("neither the CLI nor the Python SDK sends the environment's key to an address from .env", {
  timeout: 300_000,
}, async (t) => {
  const { keys, url } = await collector(t);
  const dir = tempDir(t);
  const cwd = path.join(dir, "project");
  mkdirSync(cwd);
  writeFileSync(path.join(cwd, "main.py"), 'from svc import Endpoint\n@Endpoint(name="a")\ndef a(): ...\n');
  const clean = {
    SVC_CONFIG_DIR: path.join(dir, "config"),
    SVC_DATA_DIR: path.join(dir, "data"),
    SVC_CACHE_DIR: path.join(dir, "cache"),
    HOME: dir,
  };
  const python = async (env: Record<string, string>) =>
    runProcess("python3", ["-c", CALL], {
      cwd,
      env: { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, "python/src"), ...clean, ...env },
    });
  const everything = async (env: Record<string, string>) => {
    const said: string[] = [];
    for (const command of [["status"], ["deploy"], ["whoami"], ["run", "--port", "0"]]) {
      const { stdout, stderr } = await svc(command, { cwd, env: { ...clean, ...env } });
      said.push(`${command[0]}: ${stdout}${stderr}`);
    }
    const { stderr } = await python(env);
    return [...said, `python: ${stderr}`];
  };

  writeFileSync(path.join(cwd, ".env"), `PLATFORM_URL=${url}\n`);
  for (const said of await everything({ PLATFORM_API_KEY: "svc_of_the_shell" })) {
    assert.match(said, /key of the environment is not sent to http.*\.env/s, said);
  }
  assert.deepEqual(keys, []);

  writeFileSync(path.join(cwd, ".env"), `PLATFORM_URL=${url}\nPLATFORM_API_KEY=svc_of_the_file\n`);
  await svc(["status"], { cwd, env: { ...clean, PLATFORM_API_KEY: "svc_of_the_shell" } });
  await python({ PLATFORM_API_KEY: "svc_of_the_shell" });
  assert.ok(keys.length >= 2, keys.join("\n"));
  for (const key of keys) assert.match(key, /^Bearer svc_of_the_file /);

  keys.length = 0;
  await svc(["status"], { cwd, env: { ...clean, PLATFORM_URL: url, PLATFORM_API_KEY: "svc_of_the_shell" } });
  assert.match(keys[0]!, /^Bearer svc_of_the_shell /, "a pair of the shell goes together");
});
