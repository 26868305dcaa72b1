import assert from "node:assert/strict";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { closedPort, serve } from "../client/serve.ts";
import { sandbox } from "./run-svc.ts";

/** Accepts the keys svc_good… and no others. */
const platform = () =>
  serve((request, response) => {
    const good = request.headers.authorization?.startsWith("Bearer svc_good") === true;
    request.resume();
    response.writeHead(good ? 200 : 401);
    response.end(good ? '{"data":{"myself":{"version":"0.1.0","workersQuota":30}}}' : '{"code":"WRONG_KEY"}');
  });
const url = await platform();

describe("svc login, logout and whoami", () => {
  test("a key the platform accepts is stored in a file only its owner can read", async () => {
    const box = await sandbox();
    const { code, stdout } = await box.svc(["login", "--url", `${url}/`, "--api-key", "svc_good1"]);
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`Logged in to ${url} `));
    const file = join(box.configDir, "credentials.json");
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.deepEqual(JSON.parse(await readFile(file, "utf8")).login, { url, apiKey: "svc_good1" });

    assert.equal((await box.svc(["whoami", "--show-key"])).stdout, "svc_good1\n");
    assert.match((await box.svc(["logout"])).stdout, /Logged out/);
    assert.match((await box.svc(["logout"])).stdout, /not logged in/);
    assert.equal((await box.svc(["whoami"])).code, 1);
  });

  test('--api-key "-" reads the key from the standard input', async () => {
    const box = await sandbox();
    assert.equal((await box.svc(["login", "--url", url, "--api-key", "-"], { input: "svc_good2\n" })).code, 0);
    assert.equal((await box.svc(["whoami", "--show-key"])).stdout, "svc_good2\n");
  });

  test("a key the platform refuses is not stored", async () => {
    const box = await sandbox();
    const { code, stderr } = await box.svc(["login", "--url", url, "--api-key", "svc_bad"]);
    assert.equal(code, 1);
    assert.match(stderr, /not valid/);
    await assert.rejects(stat(join(box.configDir, "credentials.json")));
  });

  test("without a terminal the key must be given", async () => {
    const box = await sandbox();
    const { code, stderr } = await box.svc(["login", "--url", url]);
    assert.equal(code, 2);
    assert.match(stderr, /--api-key KEY/);
  });

  test("the key comes from the environment, then .env, then the login", async () => {
    const box = await sandbox();
    const source = async (env?: Record<string, string>) =>
      JSON.parse((await box.svc(["whoami", "--json"], { env })).stdout) as Record<string, unknown>;
    await box.svc(["login", "--url", url, "--api-key", "svc_good_stored"]);
    assert.deepEqual(await source(), {
      url,
      urlSource: "login",
      key: "svc_good_s…",
      keySource: "stored",
      valid: true,
    });
    await writeFile(join(box.cwd, ".env"), "PLATFORM_API_KEY=svc_good_dotenv\nOTHER=1\n");
    assert.equal((await source()).keySource, ".env");
    assert.equal((await source({ PLATFORM_API_KEY: "svc_good_env" })).keySource, "environment");
    assert.equal((await source({ PLATFORM_API_KEY: "" })).keySource, ".env");
  });

  test("the platform comes from PLATFORM_URL, then .env, then the login", async () => {
    const box = await sandbox();
    const dead = await closedPort();
    await box.svc(["login", "--url", url, "--api-key", "svc_good"]);
    await writeFile(join(box.cwd, ".env"), `PLATFORM_URL=${dead}\n`);
    assert.equal((await box.svc(["whoami"])).code, 1);
    const fromEnvironment = await box.svc(["whoami", "--json"], { env: { PLATFORM_URL: url } });
    assert.equal(JSON.parse(fromEnvironment.stdout).url, url);
    assert.equal(JSON.parse(fromEnvironment.stdout).keySource, "stored");
  });

  test("a stored key is never sent to another platform", async () => {
    const box = await sandbox();
    await box.svc(["login", "--url", url, "--api-key", "svc_good"]);
    const other = await serve((request, response) => {
      assert.equal(request.headers.authorization, undefined);
      request.resume();
      response.writeHead(401).end("{}");
    });
    const { code, stderr } = await box.svc(["status"], { env: { PLATFORM_URL: other } });
    assert.equal(code, 1);
    assert.match(stderr, /No API key is known for .*\n {2}Set PLATFORM_API_KEY or run svc login\./);
  });

  test("without any platform the next command is named", async () => {
    const box = await sandbox();
    for (const args of [["status"], ["whoami"], ["undeploy", "list"], ["env", "list"], ["app", "list"]]) {
      const { code, stderr } = await box.svc(args);
      assert.equal(code, 1, args.join(" "));
      assert.match(stderr, /svc platform start/);
    }
  });

  test("a platform address that is none, and broken stored keys, are named with their place", async () => {
    const box = await sandbox();
    const bad = await box.svc(["status"], { env: { PLATFORM_URL: "localhost:7878" } });
    assert.equal(bad.code, 1);
    assert.match(bad.stderr, /"localhost:7878" is not the address of a platform\.\n {2}at PLATFORM_URL/);
    await mkdir(box.configDir, { recursive: true });
    await writeFile(join(box.configDir, "credentials.json"), "{");
    const broken = await box.svc(["status"]);
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /stored keys cannot be used.*\n {2}at .*credentials\.json/);
  });
});
