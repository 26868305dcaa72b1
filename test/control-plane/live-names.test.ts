import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy, manifest, plan, resource } from "./builds.ts";
import { startPlatform } from "./platform.ts";

test("the prefix live- belongs to svc run: in live environments all endpoints have it, elsewhere none", async (t) => {
  const platform = await startPlatform(t);
  const layer = await platform.upload(Buffer.from("s"));
  const named = (name: string) => manifest(layer, { [name]: resource("hello") });
  assert.deepEqual((await plan(platform, named("live-hello"), { environment: "live-ann-1234" })).problems, []);
  assert.match((await plan(platform, named("live-hello"))).problems.join(), /"live-hello" must be called otherwise/);
  const mixed = await plan(platform, named("hello"), { environment: "live-ann-1234" });
  assert.match(mixed.problems.join(), /"live-ann-1234" takes no endpoint "hello"/);
  const { errors } = await deploy(platform, named("live-hello"));
  assert.equal(errors?.[0]?.extensions.code, "INVALID_NAME");
});
