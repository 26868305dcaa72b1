import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type DesiredEndpoint, readBuildRequest } from "../../../src/control-plane/deploy/build-request.ts";
import { type CurrentEndpoint, diffEnvironment, nameOf } from "../../../src/control-plane/deploy/diff.ts";
import { revisionOf } from "../../../src/control-plane/revision.ts";
import { manifest, resource } from "../builds.ts";

const layer = fc.constantFrom("0".repeat(64), "1".repeat(64));

/** Endpoints as a build wants them, few enough names and values that two builds often share some. */
const desiredEndpoints = fc
  .tuple(
    layer,
    fc.uniqueArray(
      fc.record({
        name: fc.constantFrom("a", "b", "c", "constructor", "live-a"),
        balanced: fc.boolean(),
        workersMax: fc.integer({ min: 1, max: 3 }),
        dependencyLayer: fc.option(layer),
        env: fc.dictionary(fc.constantFrom("MODE", "TOKEN"), fc.constantFrom("1", "2")),
      }),
      { selector: ({ name }) => name },
    ),
  )
  .map(([source, endpoints]) => {
    const resources = endpoints.map(({ name, balanced, env, ...rest }) => {
      const changes = { ...rest, envNames: Object.keys(env), ...(balanced ? { is_load_balanced: true as const } : {}) };
      return [name, resource(name, changes)] as const;
    });
    const env = Object.fromEntries(endpoints.map((one) => [one.name, one.env]));
    const build = manifest(source, Object.fromEntries(resources));
    return readBuildRequest({ app: "a", environment: "e", manifest: build, env }).desired;
  });

function deployed(desired: readonly DesiredEndpoint[]): CurrentEndpoint[] {
  return desired.map(({ name, kind, settings, env, schedule, code }) => {
    const all = { ...settings, locations: "", kind, env };
    const record = { id: `id-${name}`, name, schedule, environmentId: "e", buildId: "b", templateId: "", reason: "" };
    const times = { createdAt: 0, updatedAt: 0 };
    return { endpoint: { ...all, ...record, ...times, revision: revisionOf(all, code, new Map()) }, code };
  });
}

test("a build that is live already is unchanged in every endpoint", () => {
  fc.assert(
    fc.property(desiredEndpoints, (desired) => {
      for (const change of diffEnvironment(desired, deployed(desired), false)) assert.equal(change.action, "unchanged");
    }),
  );
});

test("after a deploy the environment has exactly the build's endpoints, and each change says why", () => {
  fc.assert(
    fc.property(desiredEndpoints, desiredEndpoints, fc.boolean(), (before, after, keepRemoved) => {
      const current = deployed(before);
      const changes = diffEnvironment(after, current, keepRemoved);
      const stays = changes.filter(({ action }) => action !== "remove").map(nameOf);
      assert.deepEqual(
        stays,
        after.map(({ name }) => name),
      );
      const kinds = new Map(after.map(({ name, kind }) => [name, kind]));
      const leaves = before.filter(({ name, kind }) => (kinds.has(name) ? kinds.get(name) !== kind : !keepRemoved));
      const removed = changes.filter(({ action }) => action === "remove").map(nameOf);
      assert.deepEqual(removed.sort(), leaves.map(({ name }) => name).sort());
      for (const { action, details } of changes) {
        if (action === "update" || action === "remove") assert.ok(details.length > 0);
        if (action === "unchanged") assert.deepEqual(details, []);
      }
    }),
  );
});

test("an endpoint whose build is gone is updated", () => {
  const { desired } = readBuildRequest({
    app: "a",
    environment: "e",
    manifest: manifest("0".repeat(64), { hello: resource("hello") }),
  });
  const current = deployed(desired).map((one) => ({ ...one, code: null }));
  const [change] = diffEnvironment(desired, current, false);
  assert.deepEqual([change!.action, change!.details], ["update", ["code"]]);
});
