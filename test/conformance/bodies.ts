/** What every implementation of the store of large bodies must do. */
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { type BodyStore, bodyName } from "../../src/queue/bodies/body-store.ts";

export interface BodiesUnderTest {
  readonly store: BodyStore;
  close(): Promise<void>;
}

const DAY_MS = 86_400_000;
const TODAY = Date.UTC(2026, 2, 1, 12);

async function listed(store: BodyStore, end: number): Promise<string[]> {
  const names: string[] = [];
  for await (const name of store.list(end)) names.push(name);
  return names;
}

export function bodiesConformance(name: string, open: () => Promise<BodiesUnderTest>): void {
  describe(`${name}: the store of large bodies`, () => {
    let under: BodiesUnderTest;
    before(async () => {
      under = await open();
    });
    after(() => under.close());

    test("a body comes back byte for byte, empty or large, until it is deleted", async () => {
      const job = randomUUID();
      const sizes = [
        ["in", 0],
        ["out", 70_000],
        [0, 20_000_000],
        [17, 1],
      ] as const;
      const bodies = sizes.map(([part, size]) => ({ name: bodyName(TODAY, job, part), bytes: randomBytes(size) }));
      await Promise.all(bodies.map((body) => under.store.put(body.name, body.bytes)));
      for (const body of bodies) assert.ok(body.bytes.equals((await under.store.get(body.name))!), body.name);
      await under.store.delete(bodies.slice(1).map((body) => body.name));
      for (const body of bodies.slice(1)) assert.equal(await under.store.get(body.name), undefined);
      assert.equal((await under.store.get(bodies[0]!.name))!.byteLength, 0);
      await under.store.delete([bodies[0]!.name]);
    });

    test("a body that is put again is there, and one that is not there is deleted without a word", async () => {
      const body = bodyName(TODAY, randomUUID(), "out");
      await under.store.put(body, Buffer.from("the same"));
      await under.store.put(body, Buffer.from("the same"));
      assert.equal(Buffer.from((await under.store.get(body))!).toString(), "the same");
      await under.store.delete([body, body, bodyName(TODAY, randomUUID(), "in")]);
      await under.store.delete([body]);
      await under.store.delete([]);
      assert.equal(await under.store.get(body), undefined);
    });

    test("what was left of days before comes by its name, oldest day first; today's does not", async () => {
      const names = [3, 1, 2, 0].flatMap((daysAgo) => {
        const job = randomUUID();
        return (["in", "out", 0] as const).map((part) => bodyName(TODAY - daysAgo * DAY_MS, job, part));
      });
      for (const each of names) await under.store.put(each, Buffer.from(each));
      const found = await listed(under.store, TODAY);
      assert.deepEqual([...found].sort(), names.slice(0, 9).sort());
      assert.deepEqual([...new Set(found.map((each) => each.slice(0, 8)))], ["20260226", "20260227", "20260228"]);
      await under.store.delete(found);
      assert.deepEqual(await listed(under.store, TODAY), []);
      assert.deepEqual(await listed(under.store, TODAY + DAY_MS).then((rest) => rest.length), 3);
      await under.store.delete(names);
    });

    test("bodies of one job come and go at once, and none is lost", async () => {
      const job = randomUUID();
      const kept = bodyName(TODAY, job, 1_000_000);
      await Promise.all(
        Array.from({ length: 40 }, async (_, n) => {
          const body = bodyName(TODAY, job, n);
          await under.store.put(body, Buffer.from(body));
          assert.equal(Buffer.from((await under.store.get(body))!).toString(), body);
          await under.store.delete([body]);
        }),
      );
      await under.store.put(kept, Buffer.from("kept"));
      assert.deepEqual(await listed(under.store, TODAY + DAY_MS), [kept]);
      await under.store.delete([kept]);
    });
  });
}
