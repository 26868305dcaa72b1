import assert from "node:assert/strict";
import { test } from "node:test";
import { podProblems, processProblems } from "../../src/domain/driver-offers.ts";
import { deploy, manifest, plan, resource, rows } from "./builds.ts";
import { startPlatform } from "./platform.ts";

test("what the driver cannot give is told before a build, by the plan and by the deploy, and nothing is deployed", async (t) => {
  const platform = await startPlatform(t, {}, (wishes) => processProblems(wishes, ""));
  const own = { imageName: "acme/own:1" };
  const expected = /Endpoint "hello": image="acme\/own:1" needs containers.*SVC_DRIVER=docker/;
  const asked = await platform.ask(`{ mayDeploy(app: "shop", environment: "production", endpoints: [
    {name: "hello", workersMax: 1, imageName: "acme/own:1"}, {name: "plain", workersMax: 1}]) }`);
  assert.equal(asked.data.mayDeploy.length, 1);
  assert.match(asked.data.mayDeploy[0], expected);

  const build = manifest(await platform.upload(Buffer.from("s")), {
    hello: resource("hello", own),
    plain: resource("plain"),
  });
  assert.match((await plan(platform, build)).problems.join("\n"), expected);
  const { errors } = await deploy(platform, build);
  assert.equal(errors?.[0]?.extensions.code, "INVALID_SETTING");
  assert.match(errors[0]!.message, expected);
  assert.deepEqual((await rows(platform)).apps, []);
});

test("saveEndpoint gives no deployed endpoint what its workers cannot have", async (t) => {
  const platform = await startPlatform(t, {}, ({ networkVolumeId }) => (networkVolumeId === "" ? [] : ["no volumes."]));
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const { id } = (await deploy(platform, build)).data.deployBuild.endpoints[0];
  const { errors } = await platform.ask(`mutation { saveEndpoint(input: {id: "${id}", networkVolumeId: "m"}) { id } }`);
  assert.equal(errors?.[0]?.extensions.code, "INVALID_SETTING");
  assert.match(errors[0]!.message, /Endpoint "hello": no volumes/);
  assert.equal((await platform.store.endpoints.find(id))!.networkVolumeId, "");
});

test("processes have the base images, and volumes where they have paths of their own", () => {
  const none = { imageName: "svc/worker-cpu:latest", networkVolumeId: "" };
  for (const imageName of ["svc/worker-cpu:latest", "svc/worker-gpu:latest"]) {
    assert.deepEqual(processProblems({ ...none, imageName }, "why not"), []);
  }
  assert.deepEqual(processProblems({ ...none, networkVolumeId: "models" }, ""), []);
  const [problem] = processProblems({ ...none, networkVolumeId: "models" }, "this machine lacks namespaces");
  assert.match(problem!, /volume="models" cannot be mounted: this machine lacks namespaces\..*SVC_DRIVER=docker/);
});

test("a Pod has the image that is named, and nothing is built for it", () => {
  const own = { imageName: "acme/own:1" };
  assert.deepEqual(podProblems({ ...own, serverPort: 8000 }), []);
  assert.match(podProblems({ ...own, imageSteps: [{ apt: ["git"] }] }).join(), /Build it with Docker, push it/);
  assert.match(podProblems({ ...own, systemDependencies: ["git"] }).join(), /leave system_dependencies= out/);
  assert.match(podProblems(own, true).join(), /Name its program: command=/);
  assert.match(podProblems({ ...own, registryLogin: true }).join(), /makes no Secrets.*hosts\.imagePullSecrets/);
  assert.match(
    podProblems({ imageName: "svc/worker-cpu:latest", serverPort: 8000 }).join(),
    /port=8000 needs a network/,
  );
});
