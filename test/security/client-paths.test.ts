/** What a program puts into a path from elsewhere must not take its key out of the endpoint. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Endpoint } from "../../src/client/endpoint.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { ROOT } from "../e2e/platform.ts";

const LEAVES = [
  "/items/../../../graphql",
  "/items/%2e%2e/%2E%2e/.%2e/graphql",
  "/..\\..\\graphql",
  "/..%2f..%2fgraphql",
  "/..%5c..%5cgraphql",
  "/..",
];
const STAYS = ["/items/a..b/...", "/items?x=../../graphql", "/items/%2e/x"];

async function recorder(t: TestContext) {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(req.url ?? "");
    res.writeHead(200, { "content-type": "application/json" }).end("{}");
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("svc/client refuses a path that leads out of its endpoint", async (t) => {
  const { asked, url } = await recorder(t);
  const endpoint = new Endpoint({ url: `${url}/lb/api`, apiKey: "svc_k" });
  for (const path of LEAVES) await assert.rejects(endpoint.post(path, {}), { code: "BAD_INPUT" }, path);
  assert.deepEqual(asked, []);
  for (const path of STAYS) await endpoint.get(path);
  for (const path of asked) assert.match(path, /^\/lb\/api\//);
});

const CALL = `
import sys, json, svc
client = svc.Endpoint(id="api", api_key="svc_k")
results = []
for path in json.loads(sys.argv[1]):
    try:
        client.get(path)
        results.append("sent")
    except ValueError as error:
        results.append(str(error))
    except svc.CallError as error:
        results.append("sent")
print(json.dumps(results))
`;

test("and so does the Python SDK", async (t) => {
  const { asked, url } = await recorder(t);
  const call = async (paths: readonly string[]) => {
    const { stdout, stderr } = await runProcess("python3", ["-c", CALL, JSON.stringify(paths)], {
      env: { PATH: process.env.PATH, PYTHONPATH: `${ROOT}/python/src`, PLATFORM_URL: url, HOME: "/nonexistent" },
    });
    assert.notEqual(stdout, "", stderr);
    return JSON.parse(stdout) as string[];
  };
  for (const said of await call(LEAVES)) assert.match(said, /leads out of the endpoint/);
  assert.deepEqual(
    asked.filter((path) => path.includes("..") || path.includes("%2")),
    [],
  );
  assert.deepEqual(
    await call(STAYS),
    STAYS.map(() => "sent"),
  );
});
