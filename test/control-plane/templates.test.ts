import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlatform, type TestPlatform } from "./platform.ts";

const SAVE = "mutation($input: SaveTemplateInput) { saveTemplate(input: $input) { id name imageName envNames } }";
const SAVE_ENDPOINT =
  "mutation($input: EndpointInput!) { saveEndpoint(input: $input) { id name templateId imageName envNames } }";
const GIVEN = {
  name: "torch",
  imageName: "registry.example/torch:2",
  env: [
    { key: "MODE", value: "fast" },
    { key: "LEVEL", value: "1" },
  ],
};

const saved = async (platform: TestPlatform, input: object = GIVEN) => {
  const { data, errors } = await platform.ask(SAVE, { input });
  assert.equal(errors, undefined);
  return data.saveTemplate;
};
const endpoint = async (platform: TestPlatform, input: object) => {
  const { data, errors } = await platform.ask(SAVE_ENDPOINT, { input: { gpuIds: "ANY", ...input } });
  assert.equal(errors, undefined);
  return (await platform.store.endpoints.find(data.saveEndpoint.id))!;
};
const refusal = async (platform: TestPlatform, query: string, input: object) => {
  const { errors } = await platform.ask(query, { input });
  return errors?.[0] && [errors[0].extensions.code, errors[0].message];
};

test("saveTemplate makes a template, with its id changes what is given, and templates lists them by name", async (t) => {
  const platform = await startPlatform(t);
  const made = await saved(platform);
  assert.deepEqual(made, { id: made.id, name: "torch", imageName: GIVEN.imageName, envNames: ["LEVEL", "MODE"] });
  const other = await saved(platform, { name: "base", imageName: "base:1" });
  const changed = await saved(platform, { id: made.id, imageName: "registry.example/torch:3" });
  assert.deepEqual(changed, { ...made, imageName: "registry.example/torch:3" });
  const { data } = await platform.ask("{ templates { id name imageName envNames } }");
  assert.deepEqual(data.templates, [other, changed]);
});

test("an endpoint made with a template takes its image and variables, unless it gives its own", async (t) => {
  const platform = await startPlatform(t);
  const { id } = await saved(platform);
  const plain = await endpoint(platform, { name: "a", templateId: id });
  assert.deepEqual([plain.templateId, plain.imageName], [id, GIVEN.imageName]);
  assert.deepEqual(plain.env, { MODE: "fast", LEVEL: "1" });
  const own = { imageName: "mine:1", env: [{ key: "MODE", value: "slow" }] };
  const particular = await endpoint(platform, { name: "b", templateId: id, ...own });
  assert.deepEqual([particular.imageName, particular.env], ["mine:1", { MODE: "slow", LEVEL: "1" }]);
  assert.notEqual(particular.revision, plain.revision);

  // A change of the template reaches an endpoint when it names the template again.
  await saved(platform, { id, env: [{ key: "MODE", value: "turbo" }] });
  assert.deepEqual((await platform.store.endpoints.find(plain.id))!.env, plain.env);
  const scaled = await endpoint(platform, { id: plain.id, gpuIds: undefined, workersMax: 1 });
  assert.deepEqual([scaled.env, scaled.revision], [plain.env, plain.revision]);
  const again = await endpoint(platform, { id: plain.id, gpuIds: undefined, templateId: id });
  assert.deepEqual(again.env, { MODE: "turbo" });
  assert.notEqual(again.revision, plain.revision);
});

test("a template can be given along with the endpoint, and an id that names none is kept", async (t) => {
  const platform = await startPlatform(t);
  const made = await endpoint(platform, { name: "a", template: { imageName: "x:1", env: [{ key: "A", value: "1" }] } });
  assert.deepEqual([made.imageName, made.env], ["x:1", { A: "1" }]);
  const template = await platform.store.templates.find(made.templateId);
  assert.deepEqual([template?.name, template?.imageName, template?.env], ["a", "x:1", { A: "1" }]);
  const loose = await endpoint(platform, { name: "b", templateId: "xkhgg72fuo" });
  assert.deepEqual([loose.templateId, loose.env], ["xkhgg72fuo", {}]);
  // When the endpoint is refused, so is its template.
  const broken = { name: "c", gpuIds: "ANY", workersMax: -1, template: { name: "left", imageName: "x:1" } };
  assert.equal((await refusal(platform, SAVE_ENDPOINT, broken))?.[0], "INVALID_SETTING");
  assert.equal((await platform.store.templates.list()).length, 1);
});

test("what cannot be a template is refused in words", async (t) => {
  const platform = await startPlatform(t);
  const { id } = await saved(platform);
  for (const [input, code, message] of [
    [{}, "BAD_INPUT", /name and imageName/],
    [{ name: "x" }, "BAD_INPUT", /needs imageName/],
    [{ name: "torch", imageName: "x" }, "CONFLICT", /"torch" already/],
    [{ id: "nope", name: "x" }, "NOT_FOUND", /"nope"/],
    [{ name: "x", imageName: "rm -rf" }, "INVALID_SETTING", /"rm -rf"/],
    [{ name: "x\u0007", imageName: "x" }, "INVALID_NAME", /printable/],
    [{ name: "x", imageName: "x", env: [{ key: "1A", value: "" }, { key: "B", value: "\0" }] }, "BAD_INPUT", /"1A", "B"/], // biome-ignore format: a row
  ] as const) {
    const [gotCode, gotMessage] = (await refusal(platform, SAVE, input)) ?? [];
    assert.equal(gotCode, code, JSON.stringify(input));
    assert.match(gotMessage!, message);
  }
  const both = { name: "a", gpuIds: "ANY", templateId: id, template: { imageName: "x" } };
  assert.equal((await refusal(platform, SAVE_ENDPOINT, both))?.[0], "BAD_INPUT");
});

test("a template goes only when no endpoint names it", async (t) => {
  const platform = await startPlatform(t);
  const { id } = await saved(platform);
  const user = await endpoint(platform, { name: "a", templateId: id, workersMax: 0 });
  const remove = () => platform.ask("mutation($id: String!) { deleteTemplate(id: $id) }", { id });
  const refused = await remove();
  assert.equal(refused.errors?.[0]?.extensions.code, "CONFLICT");
  assert.match(refused.errors[0].message, /"torch" is used by a\./);
  await platform.ask("mutation($id: String!) { deleteEndpoint(id: $id) }", { id: user.id });
  assert.deepEqual((await remove()).data, { deleteTemplate: true });
  assert.equal((await remove()).errors?.[0]?.extensions.code, "NOT_FOUND");
});
