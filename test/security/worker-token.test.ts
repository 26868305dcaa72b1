/** What the token of one endpoint's worker does to the endpoints beside it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { project, startPlatform } from "../e2e/platform.ts";

const WORKERS = `import json, urllib.error, urllib.request
from svc import Endpoint
from svc import this_worker

@Endpoint(name="victim", workers=(0, 1))
def victim(n: int = 0) -> int:
    import time
    time.sleep(n)
    return n

@Endpoint(name="attacker", workers=(0, 1))
def attacker(path: str, body: dict = {}, headers: dict = {}) -> dict:
    here = this_worker.WORKER
    request = urllib.request.Request(here.url + path, data=json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {here.token}")
    for name, value in headers.items():
        request.add_header(name, value)
    try:
        with urllib.request.urlopen(request) as answer:
            return {"status": answer.status, "body": json.loads(answer.read())}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": json.loads(error.read())}
`;
const HOUR_S = 3600;

test("a worker's token ends the jobs that its own endpoint handed in, and no others", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const deployed = await platform.svc(["deploy"], { cwd: project(t, { "main.py": WORKERS }) });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const endpoints = await platform.endpoints();
  const [victim, attacker] = ["victim", "attacker"].map((name) => endpoints.find((one) => one.name === name)!);
  const path = (route: string) => `/v2/${victim!.id}${route}`;
  const asWorker = async (route: string, body: object = {}, headers: object = {}) => {
    const input = { path: path(route), body, headers };
    const { json, text } = await platform.call(`${attacker!.url}/runsync`, { body: { input } });
    assert.equal(json.status, "COMPLETED", text);
    return json.output as { status: number; body: { id: string; status: string; code: string } };
  };
  const submit = async (headers: Record<string, string> = {}) =>
    (await platform.call(path("/run"), { body: { input: { n: HOUR_S } }, headers })).json.id as string;
  const state = async (id: string) => (await platform.call(path(`/status/${id}`))).json.status as string;

  const [running, waiting] = [await submit(), await submit({ "Idempotency-Key": "order-1" })];
  assert.equal((await asWorker("/purge-queue")).status, 403);
  for (const id of [running, waiting]) {
    const { status, body } = await asWorker(`/cancel/${id}`);
    assert.deepEqual([status, body.code], [403, "FORBIDDEN"]);
    assert.equal((await asWorker(`/retry/${id}`)).status, 403);
    assert.match(await state(id), /^IN_/);
  }
  const own = await asWorker("/run", { input: { n: HOUR_S } }, { "Idempotency-Key": "order-1" });
  assert.notEqual(own.body.id, waiting, "another's idempotency key names no job of others");
  assert.equal((await asWorker(`/cancel/${own.body.id}`)).body.status, "CANCELLED", "its own it may cancel");
  for (const id of [running, waiting]) {
    assert.equal(
      (await platform.call(path(`/cancel/${id}`), { method: "POST" })).json.status,
      "CANCELLED",
      "a key may",
    );
  }
});
