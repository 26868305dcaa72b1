import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { chooseEnvironment } from "../../src/cli/deploy/target.ts";
import { sandbox } from "./run-svc.ts";
import { schemaServer } from "./schema-server.ts";

describe("svc run", () => {
  test("its help names every flag of the specification", async () => {
    const { svc } = await sandbox();
    const { stdout, code } = await svc(["run", "--help"]);
    assert.equal(code, 0);
    for (const flag of ["--host", "-p, --port", "--[no-]reload", "--auto-provision"])
      assert.ok(stdout.replaceAll(/ +/g, " ").includes(flag), `${flag} in ${stdout}`);
  });

  test("a port that is none is wrong use of the command", async () => {
    const { svc } = await sandbox();
    const { code, stderr } = await svc(["run", "--port", "70000"]);
    assert.equal(code, 2);
    assert.match(stderr, /a whole number from 0 to 65535 is needed/);
  });

  test("a project that does not build, or has no endpoints, ends the start with all that is wrong", async () => {
    const platform = await schemaServer([]);
    const { svc, cwd } = await sandbox();
    const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: "k" };
    const empty = await svc(["run", "--port", "0"], { env });
    assert.equal(empty.code, 1);
    assert.match(empty.stderr, /No function of the project is decorated with Endpoint/);
    await writeFile(join(cwd, "broken.py"), "from svc import Endpoint\ndef (:\n");
    const broken = await svc(["run", "--port", "0"], { env });
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /error\[syntax-error\]: .*\n +--> broken\.py:2:5/);
  });

  test("a platform that does not answer is told", async () => {
    const { svc } = await sandbox();
    const { code, stderr } = await svc(["run"], { env: { PLATFORM_URL: "http://127.0.0.1:9", PLATFORM_API_KEY: "k" } });
    assert.equal(code, 1);
    assert.match(stderr, /The platform at http:\/\/127\.0\.0\.1:9 cannot be reached/);
  });

  test("its environments do not count when a deploy chooses one", () => {
    assert.equal(chooseEnvironment(["live-ann-1234", "staging"]), "staging");
    assert.equal(chooseEnvironment(["live-ann-1234"]), "production");
  });
});
