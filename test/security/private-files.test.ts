import assert from "node:assert/strict";
import { test } from "node:test";
import { project, svc, tempDir } from "../e2e/platform.ts";

const WORKER = 'from svc import Endpoint\n\n@Endpoint(name="a")\ndef a(): ...\n';

test("svc build names shipped files that look like keys, and says nothing once they stay out", {
  timeout: 300_000,
}, async (t) => {
  const files = {
    "main.py": WORKER,
    id_rsa: "k",
    "certs/site.pem": "k",
    "certs/site.key": "k",
    ".aws/credentials": "k",
  };
  const env = { SVC_CACHE_DIR: tempDir(t) };
  const warned = await svc(["build"], { cwd: project(t, files), env });
  assert.equal(warned.code, 0, warned.stderr);
  assert.match(
    warned.stdout + warned.stderr,
    /looks private: \.aws\/credentials, certs\/site\.key, certs\/site\.pem, id_rsa/,
  );
  const quiet = await svc(["build"], {
    cwd: project(t, { ...files, ".svcignore": "id_rsa\ncerts/\n.aws/\n", "keys.py": "", "pem.txt": "" }),
    env,
  });
  assert.doesNotMatch(quiet.stdout + quiet.stderr, /looks private/);
});
