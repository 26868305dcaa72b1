/** svc deploy against a platform it starts itself. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { sandbox } from "./run-svc.ts";

const HELLO = `from svc import Endpoint

api = Endpoint(name="api")

@api.get("/health")
def health(): return {"status": "VERSION"}

@api.post("/echo/{times}")
def echo(times: int, text: str): return text * times

@Endpoint(name="double")
def double(number: int): return number * 2
`;

interface Deployed {
  readonly changed: boolean;
  readonly buildId: string;
  readonly endpoints: { name: string; url: string; examples: { route: string; command: string }[] }[];
}

describe("svc deploy", () => {
  test("starts a platform, shows the plan, deploys, and every printed call works when pasted", async () => {
    const box = await sandbox();
    const cwd = join(box.cwd, "shop");
    await mkdir(cwd);
    const write = (text: string) => writeFile(join(cwd, "hello.py"), text);
    const svc = (...args: string[]) => box.svc(args, { cwd });

    await write(HELLO.replace("VERSION", "one"));
    const first = await svc("deploy");
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stderr, /Platform started at http/);
    assert.match(
      first.stderr,
      /Plan for shop\/production \(new app\)\n {2}\+ create +api +load-balanced\n {2}\+ create +double/,
    );
    assert.match(
      first.stdout,
      /^Deployed shop\/production\.\n\nLoad-balanced endpoints\n\n {2}http\S+\n {4}api\n {4}GET \/health\n {4}POST \/echo\/\{times\}\n/,
    );
    assert.match(first.stdout, /\nQueue-based endpoints\n\n {2}http\S+\n {4}double\n/);

    const key = (await svc("whoami", "--show-key")).stdout.trim();
    const paste = async (command: string) =>
      (await promisify(execFile)("/bin/sh", ["-c", command], { env: { ...process.env, PLATFORM_API_KEY: key } }))
        .stdout;
    for (const command of first.stdout.match(/^ {4}curl .*$/gm)!) assert.doesNotMatch(await paste(command), /"error"/);

    const second = JSON.parse((await svc("deploy", "--json")).stdout) as Deployed;
    assert.equal(second.changed, false);
    const calls = second.endpoints.flatMap((endpoint) => endpoint.examples);
    assert.deepEqual(calls.map((call) => call.route).sort(), ["GET /health", "POST /echo/{times}", "POST /runsync"]);
    const answers = new Map(
      await Promise.all(calls.map(async (call) => [call.route, await paste(call.command)] as const)),
    );
    assert.equal(answers.get("GET /health"), '{"status":"one"}');
    assert.match(answers.get("POST /echo/{times}")!, /^"?(Hello, world\. What a nice day!){3}"?$/);
    assert.equal((JSON.parse(answers.get("POST /runsync")!) as { output: number }).output, 6);

    await write(HELLO.replace("VERSION", "two").replace(/@Endpoint\(name="double"\).*/s, ""));
    const third = await svc("deploy", "--json");
    assert.match(third.stderr, /~ update +api +code/);
    assert.match(third.stderr, /- remove +double/);
    const health = (JSON.parse(third.stdout) as Deployed).endpoints[0]!.examples[0]!;
    assert.equal(await paste(health.command), '{"status":"two"}');

    await write("from svc import Endpoint\nraise RuntimeError('not today')\n@Endpoint(name='api2')\ndef f(): ...\n");
    const blocked = await svc("deploy");
    assert.equal(blocked.code, 1);
    assert.match(blocked.stderr, /error: Deployed, but an endpoint cannot run\.\n.*api2.*not today/s);
    assert.match((await svc("status")).stdout, /BLOCKED/);

    assert.equal((await svc("undeploy", "--all", "--force")).code, 0);
    assert.deepEqual(JSON.parse((await svc("status", "--json")).stdout), []);
  });
});
