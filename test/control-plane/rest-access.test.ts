import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";
import { REST_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";
import { keyWith, rest } from "./rest.ts";

const PATHS = ["/v1/endpoints", "/rest/v1/templates", "/v1/networkvolumes", "/v1/containerregistryauth", "/v2/serverless", "/v2/templates", "/v2/network-volumes", "/v2/registries", "/v2/catalog/gpus"]; // biome-ignore format: a row
const TEMPLATE = { name: "t", imageName: "x:1" };

test("without a key and with a wrong one nothing is told, whatever the path", async (t) => {
  const platform = await startPlatform(t);
  for (const path of [...PATHS, "/v1/nothing", "/v2/templates/a/b/c"]) {
    for (const method of ["GET", "POST", "DELETE"]) {
      const none = await rest(platform, method, path, undefined, null);
      assert.deepEqual([none.status, none.json.code], [401, "MISSING_KEY"], `${method} ${path}`);
      assert.equal(none.headers.get("www-authenticate"), "Bearer");
      const wrong = await rest(platform, method, path, undefined, "svc_wrong");
      assert.deepEqual([wrong.status, wrong.json.code], [401, "WRONG_KEY"], `${method} ${path}`);
    }
    // A key in the address is written down by proxies: it counts on /graphql alone.
    assert.equal((await rest(platform, "GET", `${path}?api_key=${platform.adminKey}`, undefined, null)).status, 401);
  }
});

test("a key that may read changes nothing, and one that may only call sees nothing", async (t) => {
  const platform = await startPlatform(t);
  const [reads, calls, deploys] = [
    await keyWith(platform, ["read"]),
    await keyWith(platform, ["invoke"]),
    await keyWith(platform, ["deploy"]),
  ];
  for (const path of PATHS) {
    assert.equal((await rest(platform, "GET", path, undefined, reads)).status, 200, path);
    assert.equal((await rest(platform, "GET", path, undefined, deploys)).status, 200, path);
    assert.deepEqual((await rest(platform, "GET", path, undefined, calls)).json.code, "FORBIDDEN", path);
  }
  const { id } = (await rest(platform, "POST", "/v1/templates", TEMPLATE, deploys)).json;
  for (const [method, path] of [
    ["POST", "/v1/endpoints"],
    ["PATCH", `/v1/templates/${id}`],
    ["POST", `/v1/templates/${id}/update`],
    ["DELETE", `/v1/templates/${id}`],
    ["POST", "/v1/networkvolumes"],
    ["POST", "/v1/containerregistryauth"],
    ["POST", "/v2/serverless"],
    ["PATCH", "/v2/serverless/x"],
    ["DELETE", "/v2/serverless/x"],
    ["DELETE", `/v2/templates/${id}`],
    ["DELETE", "/v2/registries/x"],
  ] as const) {
    const { status, json } = await rest(platform, method, path, {}, reads);
    assert.deepEqual([status, json.code], [403, "FORBIDDEN"], `${method} ${path}`);
  }
  assert.equal((await platform.store.templates.list()).length, 1);
});

test("a key that is bound sees its endpoint alone, and nothing of what belongs to the whole platform", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const [hello] = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints;
  const auth = (await rest(platform, "POST", "/v2/registries", { name: "hub", username: "u", password: "p" })).json;
  const template = (await rest(platform, "POST", "/v2/templates", { name: "t", image: "private.example/x:1", registry: auth.id, env: { TOKEN: "hush" } })).json; // biome-ignore format: a row
  const mine = (await rest(platform, "POST", "/v2/serverless", { name: "mine", templateId: template.id, gpu: {} }))
    .json;
  const theirs = (await rest(platform, "POST", "/v2/serverless", { name: "theirs", templateId: template.id, gpu: {} }))
    .json;
  const bound = await keyWith(platform, ["deploy"], { endpointId: mine.id });
  const ofShop = await keyWith(platform, ["deploy"], { app: "shop", environment: "production" });
  const ids = async (key: string) =>
    (await rest(platform, "GET", "/v2/serverless", undefined, key)).json.endpoints.map(({ id }: { id: string }) => id);
  assert.deepEqual(await ids(bound), [mine.id]);
  assert.ok((await ids(ofShop)).includes(hello.id) && !(await ids(ofShop)).includes(mine.id));
  for (const key of [bound, ofShop]) {
    for (const path of PATHS.filter((one) => /templates|volumes|regist/.test(one))) {
      assert.equal((await rest(platform, "GET", path, undefined, key)).json.code, "FORBIDDEN", path);
    }
    assert.equal((await rest(platform, "GET", `/v2/serverless/${theirs.id}`, undefined, key)).status, 404);
    assert.equal((await rest(platform, "GET", `/v2/serverless/${theirs.id}/workers`, undefined, key)).status, 404);
    assert.equal(
      (await rest(platform, "PATCH", `/v2/serverless/${theirs.id}`, { workers: { max: 0 } }, key)).status,
      403,
    );
    assert.equal((await rest(platform, "DELETE", `/v2/serverless/${theirs.id}`, undefined, key)).status, 404);
    assert.equal((await rest(platform, "POST", "/v2/serverless", { name: "n", image: "x", gpu: {} }, key)).status, 403);
  }
  assert.equal((await rest(platform, "GET", `/v1/endpoints/${mine.id}?includeTemplate=true`, undefined, bound)).json.template, undefined); // biome-ignore format: a row
  const { data } = await platform.ask("{ myself { networkVolumes { id } podTemplates { id } containerRegistryCreds { id } endpoints { template { id } } } }", {}, bound); // biome-ignore format: a row
  assert.deepEqual(data.myself, { networkVolumes: [], podTemplates: [], containerRegistryCreds: [], endpoints: [{ template: null }] }); // biome-ignore format: a row

  // The platform's credentials go to no registry that such a key names.
  const taken = await rest(platform, "PATCH", `/v2/serverless/${mine.id}`, { image: "evil.example/x:1" }, bound);
  assert.deepEqual([taken.status, taken.json.registry], [200, null]);
  assert.equal((await platform.store.endpoints.find(mine.id))!.container, undefined);
  await rest(
    platform,
    "PATCH",
    `/v2/serverless/${mine.id}`,
    { templateId: template.id, image: "evil.example/x:1" },
    bound,
  );
  await rest(platform, "PATCH", `/v2/serverless/${mine.id}`, { registry: auth.id }, bound);
  assert.equal((await platform.store.endpoints.find(mine.id))!.container, undefined);
});

test("bodies that are no JSON object, huge ones, and odd paths are refused in words", async (t) => {
  const platform = await startPlatform(t);
  for (const body of ["", "{", "[]", "null", '"text"', "\ud800", "5"]) {
    const { status, json } = await rest(platform, "POST", "/v1/templates", body);
    assert.deepEqual([status, json.code], [400, "BAD_INPUT"], body);
  }
  for (const body of [
    { name: 5 },
    { name: "x", imageName: ["x"] },
    { name: "x", imageName: "x", env: { A: 1 } },
    { name: "x", imageName: "x", env: [] },
  ]) {
    // biome-ignore format: a row
    assert.equal((await rest(platform, "POST", "/v1/templates", body)).json.code, "BAD_INPUT", JSON.stringify(body));
  }
  const polluted =
    '{"name":"p","imageName":"x","__proto__":{"isPublic":true},"constructor":1,"id":"mine","createdAt":1}';
  const made = (await rest(platform, "POST", "/v1/templates", polluted)).json;
  assert.deepEqual([made.isPublic, made.id === "mine"], [false, false]);
  const foreign = (await rest(platform, "POST", "/v1/endpoints", { name: "a", templateId: made.id, id: "mine", environmentId: "e", buildId: "b", kind: "load-balanced" })).json; // biome-ignore format: a row
  const record = (await platform.store.endpoints.find(foreign.id))!;
  assert.deepEqual(
    [record.environmentId, record.buildId, record.kind, foreign.id === "mine"],
    [null, null, "queue", false],
  );

  const declared = await rest(platform, "POST", "/v1/templates", `{"readme":"${"x".repeat(REST_BODY_MAX_BYTES)}"}`);
  assert.deepEqual([declared.status, declared.json.code], [413, "TOO_LARGE"]);
  assert.equal(await chunked(platform.url, platform.adminKey), 413);

  for (const [path, status] of [
    [`/v1/endpoints/${foreign.id}%2Fworkers`, 404],
    ["/v1/endpoints/..%2F..%2Fetc", 404],
    ["/v1/endpoints/%00", 404],
    ["/v1/endpoints/a/b", 404],
    ["/v1/endpoints/%zz", 400],
    ["/v1//endpoints", 404],
    ["/v1/", 404],
    ["/v2/serverless/x/y/z", 404],
    ["/v1/networkvolumes/..%2Fshop", 404],
    [`/v1/templates/${"x".repeat(5000)}`, 404],
    ["/v1/endpoints/", 200],
  ] as const) {
    const { status: got, json } = await rest(platform, "GET", path);
    assert.equal(got, status, `${path.slice(0, 80)}: ${JSON.stringify(json).slice(0, 200)}`);
    assert.ok(JSON.stringify(json).length < 2000);
  }
  const put = await rest(platform, "PUT", "/v1/templates", TEMPLATE);
  assert.deepEqual([put.status, put.headers.get("allow")], [405, "GET, POST"]);
  assert.deepEqual(platform.logged, []);
});

/** The status of a body of unknown length that does not end. */
function chunked(url: string, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/v1/templates`, { method: "POST", headers: { authorization: `Bearer ${key}` } });
    const more = () => {
      while (!sent.destroyed && sent.write("x".repeat(65_536)));
      if (!sent.destroyed) sent.once("drain", more);
    };
    sent.on("response", (response) => {
      resolve(response.statusCode!);
      sent.destroy();
    });
    sent.on("error", reject);
    more();
  });
}

test("what is done by REST, and what is refused, stands in the audit log, without any value", async (t) => {
  const platform = await startPlatform(t);
  const auth = (await rest(platform, "POST", "/v2/registries", { name: "hub", username: "ada", password: "hush-hush" }))
    .json;
  await rest(platform, "POST", "/v1/networkvolumes", { name: "models", size: 1 });
  await rest(platform, "PATCH", "/v1/networkvolumes/models", { size: 2 });
  await rest(platform, "DELETE", `/v2/registries/${auth.id}`);
  await rest(platform, "DELETE", "/v2/registries/x", undefined, await keyWith(platform, ["read"]));
  const { data } = await platform.ask("{ audit(first: 50) { entries { action target detail } } }");
  const actions = data.audit.entries.map(({ action }: { action: string }) => action);
  for (const action of ["registry.save", "volume.create", "volume.resize", "registry.delete"]) {
    assert.ok(actions.includes(action), `${action}: ${actions}`);
  }
  assert.ok(data.audit.entries.some(({ target }: { target: string }) => target === "DELETE /v2/registries/x"));
  assert.ok(!JSON.stringify(data).includes("hush-hush"));
});
