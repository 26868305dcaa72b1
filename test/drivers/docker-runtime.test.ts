import { test } from "node:test";
import { connectEngine, requireRuntime } from "../../src/drivers/docker/engine.ts";
import { dockerForTests } from "../docker.ts";

const docker = await dockerForTests();

test("an engine names the runtime that it runs containers with unasked", { skip: docker.skip }, async () => {
  const { facts } = await connectEngine(process.env);
  requireRuntime(facts, "runc");
});
