import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { portsToTry, wantedPorts } from "../../../src/cli/preview/fronts.ts";
import { PREVIEW_PORT_FIRST, PREVIEW_PORTS } from "../../../src/domain/limits.ts";

const names = fc.uniqueArray(fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,20}$/), { minLength: 1, maxLength: 40 });

test("An endpoint's port follows from app and name, whatever order the endpoints come in", () => {
  fc.assert(
    fc.property(names, fc.string(), (endpoints, app) => {
      const wanted = wantedPorts(app, endpoints);
      assert.deepEqual([...wantedPorts(app, endpoints.toReversed())], [...wanted]);
    }),
  );
  assert.notDeepEqual(wantedPorts("shop", ["api"]), wantedPorts("blog", ["api"]));
});

test("Two endpoints never want the same port, and every port lies in the documented range", () => {
  // Hundreds of endpoints, so that some names do fall on one port.
  const many = Array.from({ length: 500 }, (_, index) => `endpoint-${index}`);
  const ports = [...wantedPorts("shop", many).values()];
  assert.equal(new Set(ports).size, many.length);
  for (const port of ports) assert.ok(port >= PREVIEW_PORT_FIRST && port < PREVIEW_PORT_FIRST + PREVIEW_PORTS);
});

test("The port that is tried after a taken one is the next that no other endpoint wants", () => {
  const wanted = new Map([
    ["a", 20_100],
    ["b", 20_101],
    ["c", 20_103],
  ]);
  const tried = [...portsToTry("a", wanted)].slice(0, 4);
  assert.deepEqual(tried, [20_100, 20_102, 20_104, 20_105]);
  const last = PREVIEW_PORT_FIRST + PREVIEW_PORTS - 1;
  assert.deepEqual([...portsToTry("z", new Map([["z", last]]))].slice(0, 2), [last, PREVIEW_PORT_FIRST]);
});
