import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import type { LayersBuild } from "../../src/build/build-layers.ts";
import type { Platform } from "../../src/client/answer-error.ts";
import { ControlPlane } from "../../src/client/control-plane.ts";
import { Provisioner } from "../../src/dev/provisioner.ts";
import { serve } from "../client/serve.ts";
import { manifest, resource } from "../control-plane/builds.ts";
import { startPlatform, type TestPlatform } from "../control-plane/platform.ts";

type Layer = LayersBuild["layers"][number];

function layer(platform: TestPlatform, kind: Layer["kind"]): Layer {
  const bytes = randomBytes(1000);
  const digest = createHash("sha256").update(bytes).digest("hex");
  const path = join(platform.dir, `built-${digest}`);
  writeFileSync(path, bytes);
  return { digest, kind, path, sizeBytes: bytes.length };
}

function build(platform: TestPlatform, dependencies: Layer): LayersBuild {
  const source = layer(platform, "source");
  const hello = resource("hello", { dependencyLayer: dependencies.digest });
  const made = { manifest: manifest(source.digest, { hello }), env: { hello: {} }, layers: [source, dependencies] };
  return made as unknown as LayersBuild;
}

async function provisioner(t: TestContext) {
  const platform = await startPlatform(t);
  return { platform, provisioner: provisionerAt({ url: platform.url, apiKey: platform.adminKey }) };
}

function provisionerAt(platform: Platform): Provisioner {
  const controlPlane = new ControlPlane(platform);
  const place = { app: "shop", environment: "live-ann-0000" };
  const events = { onProgress: () => {}, onLive: () => {} };
  return new Provisioner(
    () => controlPlane,
    place,
    () => [],
    events,
  );
}

const stored = (platform: TestPlatform, digest: string) => join(platform.dir, "layers", digest.slice(0, 2), digest);

test("a call after a long pause sends again what the platform has removed meanwhile", async (t) => {
  const { platform, provisioner: live } = await provisioner(t);
  const dependencies = layer(platform, "dependencies");
  await live.ensure(build(platform, dependencies), "hello");
  rmSync(stored(platform, dependencies.digest));
  const next = build(platform, dependencies);
  const { record, source } = await live.ensure(next, "hello");
  assert.equal(record.name, "live-hello");
  assert.equal(source, next.manifest.sourceLayer);
  assert.equal((await platform.store.endpoints.find(record.id))?.buildId, record.buildId);
});

test("endpoints that are deployed at the same time share one upload of their code", async (t) => {
  const { platform } = await provisioner(t);
  const uploads: string[] = [];
  const url = await serve(async (request, response) => {
    if (request.method === "PUT") uploads.push(request.url!);
    const answer = await fetch(platform.url + request.url, {
      method: request.method,
      headers: { authorization: request.headers.authorization! },
      body: request.method === "HEAD" ? undefined : await buffer(request),
    });
    response.writeHead(answer.status).end(await answer.text());
  });
  const live = provisionerAt({ url, apiKey: platform.adminKey });
  const source = layer(platform, "source");
  const resources = { a: resource("a"), b: resource("b") };
  const both = { manifest: manifest(source.digest, resources), env: { a: {}, b: {} }, layers: [source] };
  await Promise.all(["a", "b"].map((name) => live.ensure(both as unknown as LayersBuild, name)));
  assert.deepEqual(uploads, [`/layers/${source.digest}`]);
});

test("a layer that is missing again is an error of the call, not one more try", async (t) => {
  const { platform } = await provisioner(t);
  let deploys = 0;
  const url = await serve(async (request, response) => {
    const body = await text(request);
    if (body.includes("deployBuild")) deploys += 1;
    const refused = { data: null, errors: [{ message: "It is gone.", extensions: { code: "LAYER_MISSING" } }] };
    const plan = { data: { planBuild: { changes: [], missingLayers: [], problems: [] } } };
    response.end(JSON.stringify(body.includes("deployBuild") ? refused : plan));
  });
  const live = provisionerAt({ url, apiKey: "k" });
  const call = live.ensure(build(platform, layer(platform, "dependencies")), "hello");
  await assert.rejects(call, { code: "LAYER_MISSING", message: "It is gone." });
  assert.equal(deploys, 2);
});
