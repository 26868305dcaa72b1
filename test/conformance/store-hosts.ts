/** What every implementation of the store must do for hosts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { HostRow, HostTokenRow } from "../../src/store/hosts.ts";
import type { Store } from "../../src/store/store.ts";

const NOW = 1_700_000_000_000;
let made = 0;

export function newHost(changes: Partial<HostRow> = {}): HostRow {
  made += 1;
  return {
    id: `host-id-${made}`,
    name: `host-${made}`,
    secretHash: `secret-${made}`,
    labels: ["gpu-a100", "rack.1"],
    arch: "x64",
    version: "0.1.0",
    driver: "process",
    sharedVolumes: true,
    draining: false,
    pod: "",
    holder: "",
    joinedAt: NOW,
    lastSeenAt: NOW,
    ...changes,
  };
}

function newToken(changes: Partial<HostTokenRow> = {}): HostTokenRow {
  made += 1;
  return {
    id: `token-${made}`,
    tokenHash: `token-hash-${made}`,
    name: "",
    reusable: false,
    expiresAt: NOW + 1000,
    createdAt: NOW,
    usedAt: null,
    revokedAt: null,
    createdBy: "ci",
    ...changes,
  };
}

/** A machine that has joined. */
export async function joinedHost(store: Pick<Store, "hosts">, changes: Partial<HostRow> = {}): Promise<HostRow> {
  const { tokenHash } = newToken();
  await store.hosts.createToken({ ...newToken(), tokenHash });
  const joined = await store.hosts.join(tokenHash, NOW, newHost(changes));
  if (typeof joined === "string") throw new Error(joined);
  return joined;
}

export function hosts(store: () => Store): void {
  const token = async (changes: Partial<HostTokenRow> = {}) => {
    const row = newToken(changes);
    await store().hosts.createToken(row);
    return row;
  };
  const joined = async () => {
    const host = await store().hosts.join((await token()).tokenHash, NOW, newHost());
    assert.ok(typeof host !== "string");
    return host;
  };

  test("a host that joined is found by its id and secret, and keeps every field until it is removed", async () => {
    const host = newHost();
    assert.deepEqual(await store().hosts.join((await token()).tokenHash, NOW, host), host);
    const repository = store().hosts;
    assert.deepEqual(await repository.find(host.id), host);
    assert.deepEqual(await repository.findBySecret(host.secretHash), host);
    assert.deepEqual(
      (await repository.list()).find(({ id }) => id === host.id),
      host,
    );
    assert.equal(await repository.setDraining(host.id, true), true);
    const facts = { labels: [], arch: "x64", version: "0.2.0", driver: "docker", sharedVolumes: false };
    await repository.seen(host.id, NOW + 5, facts);
    assert.deepEqual(await repository.find(host.id), { ...host, ...facts, draining: true, lastSeenAt: NOW + 5 });
    assert.equal(await repository.remove(host.id), true);
    assert.equal(await repository.findBySecret(host.secretHash), undefined);
    assert.deepEqual([await repository.remove(host.id), await repository.setDraining(host.id, false)], [false, false]);
    await repository.seen(host.id, NOW + 6, facts);
    assert.equal(await repository.find(host.id), undefined);
  });

  test("a Pod is let in without a token, once by its name; its secret is replaced when it comes anew, and it is held for one holder", async () => {
    const repository = store().hosts;
    const pod = newHost({ pod: "uid-1" });
    assert.deepEqual(await repository.admit(pod), pod);
    const again = await repository.admit({ ...newHost({ name: pod.name, pod: "uid-1" }), secretHash: "another" });
    assert.deepEqual(again, { ...pod, secretHash: "another" });
    assert.equal(await repository.findBySecret(pod.secretHash), undefined);
    assert.equal(await repository.admit(newHost({ name: pod.name, pod: "uid-2" })), "name-taken");
    const holds = ["environment:a", "environment:b"].map((holder) => repository.hold(pod.id, holder));
    assert.deepEqual((await Promise.all(holds)).filter(Boolean).length, 1, "of two that want it at once one has it");
    const { holder } = (await repository.find(pod.id))!;
    assert.equal(await repository.hold(pod.id, holder), true);
    assert.equal(await repository.hold(pod.id, ""), false, "it never becomes nobody's again");
    assert.equal((await repository.find(pod.id))!.holder, holder);
    assert.equal(await repository.hold("nobody", "environment:a"), false);
  });

  test("a one-use token lets one host in, also of many that join at once", async () => {
    const { id, tokenHash } = await token();
    const attempts = Array.from({ length: 10 }, () => store().hosts.join(tokenHash, NOW, newHost()));
    const results = await Promise.all(attempts);
    assert.deepEqual(
      results.filter((result) => typeof result === "string"),
      Array.from({ length: 9 }, () => "used"),
    );
    assert.equal((await store().hosts.listTokens()).find((row) => row.id === id)?.usedAt, NOW);
  });

  test("of two hosts of one name that join at once one is let in, and the other's token stays good", async () => {
    const tokens = [await token(), await token()];
    const { name } = newHost();
    const results = await Promise.all(
      tokens.map(({ tokenHash }) => store().hosts.join(tokenHash, NOW, newHost({ name }))),
    );
    const lost = results.indexOf("name-taken");
    assert.equal(results.filter((result) => typeof result === "string").length, 1);
    const again = await store().hosts.join(tokens[lost]!.tokenHash, NOW, newHost());
    assert.ok(typeof again !== "string");
  });

  test("a token that has a name lets in a host of that name alone", async () => {
    const host = newHost();
    const { tokenHash } = await token({ name: host.name });
    assert.equal(await store().hosts.join(tokenHash, NOW, newHost()), "other-name");
    assert.deepEqual(await store().hosts.join(tokenHash, NOW, host), host);
  });

  test("a join inside a transaction that fails leaves no host and a token that is good", async () => {
    const { tokenHash } = await token();
    const host = newHost();
    const failing = store().transaction(async (inner) => {
      await inner.hosts.join(tokenHash, NOW, host);
      throw new Error("undone");
    });
    await assert.rejects(failing, /undone/);
    assert.equal(await store().hosts.find(host.id), undefined);
    assert.deepEqual(await store().hosts.join(tokenHash, NOW, host), host);
  });

  test("every change of a host is told as it is now, but not that it was only heard of", async () => {
    const told: unknown[] = [];
    store().onChange((change) => void (change.table === "hosts" && told.push([change.id, change.host])));
    const host = await joined();
    const { labels, arch, version, driver, sharedVolumes } = host;
    await store().hosts.seen(host.id, NOW + 1, { labels, arch, version, driver, sharedVolumes });
    await store().hosts.setDraining(host.id, true);
    await store().hosts.seen(host.id, NOW + 2, { labels: ["b"], arch, version, driver, sharedVolumes });
    await store().hosts.remove(host.id);
    await store().hosts.remove(host.id);
    const draining = { ...host, draining: true, lastSeenAt: NOW + 1 };
    const changed = { ...draining, labels: ["b"], lastSeenAt: NOW + 2 };
    assert.deepEqual(
      told,
      [host, draining, changed, undefined].map((each) => [host.id, each]),
    );
  });

  test("whatever happens to a token, it lets in exactly those it should", async () => {
    const at = fc.integer({ min: 0, max: 20 });
    const step = fc.record({ kind: fc.constantFrom("join" as const, "revoke" as const), at });
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.option(fc.constant(NOW + 10)),
        fc.array(step, { maxLength: 8 }),
        async (reusable, expiresAt, steps) => {
          const row = await token({ reusable, expiresAt });
          let used = false;
          let revoked = false;
          for (const { kind, at } of steps) {
            if (kind === "revoke") {
              assert.equal(await store().hosts.revokeToken(row.id, NOW + at), !revoked);
              revoked = true;
              continue;
            }
            const isOver: boolean = revoked || (expiresAt !== null && NOW + at >= expiresAt) || (used && !reusable);
            const result = await store().hosts.join(row.tokenHash, NOW + at, newHost());
            assert.equal(typeof result === "string", isOver);
            used ||= !isOver;
          }
        },
      ),
      { numRuns: 40 },
    );
    assert.equal(await store().hosts.join("of another platform", NOW, newHost()), "unknown");
  });
}
