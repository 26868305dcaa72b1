/** The edges of the platform's HTTP server: odd requests, keys in addresses, counts of wrong codes, keys of one endpoint. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ClientAddress } from "../../src/lib/client-address.ts";
import { project, startPlatform } from "../e2e/platform.ts";
import { rawCall, rawRequest } from "./raw-http.ts";

test("odd requests without a key are refused as such, and none is an internal error", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const odd = [
    "//",
    "//evil/graphql",
    "///",
    "/\\",
    "/logs/%zz",
    "/logs/%",
    "http://",
    "/%00",
    "/:80",
    "/?%",
    "*",
    "foo",
    "//[",
    "/device/%zz",
  ];
  for (const target of odd) {
    for (const headers of [undefined, { Authorization: `Bearer ${platform.key}` }]) {
      const { status, text } = await rawCall(platform.url, { path: target, headers });
      assert.ok(status < 500 && status >= 200, `${target}: ${text}`);
      if (target !== "/?%") assert.ok(status >= 400, `${target}: ${text}`);
    }
  }
  assert.match(await rawRequest(platform.url, "GET /\r\n\r\n"), /^HTTP\/1\.1 400 /, "a request without a version");
  assert.match(await rawRequest(platform.url, "GET / HTTP/2.0\r\nHost: x\r\n\r\n"), /^HTTP\/1\.1 400 /);
  const logs = readdirSync(platform.dir, { recursive: true, withFileTypes: true }).filter((one) =>
    one.name.endsWith(".log"),
  );
  for (const log of logs) assert.doesNotMatch(readFileSync(path.join(log.parentPath, log.name), "utf8"), /failed/);
});

test("a request behind an answer that ends its connection, with others before it, does not end the platform", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const request = (target: string, headers: readonly string[] = []) =>
    [`POST ${target} HTTP/1.1`, "Host: x", `Authorization: Bearer ${platform.key}`, ...headers].join("\r\n");
  const withBody = (target: string) => `${request(target, ["Content-Length: 2"])}\r\n\r\n{}`;
  const last = `${request("/graphql", ["Connection: close"])}\r\n\r\n{}`;
  for (const waiting of ["/y", "/graphql", "/logs/%zz"]) {
    for (const behind of ["/graphql", "/y", "/healthz"]) {
      await rawRequest(platform.url, [...["/y", waiting, behind].map(withBody), last].join(""));
      assert.equal((await platform.call("/healthz")).status, 200, `${waiting}, ${behind}`);
    }
  }
});

test("who follows and closes the sending side at once is answered, and the platform goes on", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  for (const target of ["/logs?follow=1", "/events"]) {
    for (let n = 0; n < 40; n++) {
      // Some of them wait behind another answer, and are ended before they have the connection.
      const request = `GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${platform.key}\r\n\r\n`;
      const text = await rawRequest(platform.url, request.repeat(1 + (n % 3)), { ends: true });
      assert.match(text, /^HTTP\/1\.1 200 |^$/, target);
    }
    assert.equal((await platform.call("/healthz")).status, 200, target);
  }
});

test("a key in the address counts on /graphql alone", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  for (const target of ["/logs/x", `/layers/${"ab".repeat(32)}`]) {
    const { status, json } = await platform.call(`${target}?api_key=${platform.key}`, { key: null });
    assert.deepEqual([status, json.code], [401, "MISSING_KEY"], target);
  }
  const body = { query: "{ myself { version } }" };
  assert.equal((await platform.call(`/graphql?api_key=${platform.key}`, { key: null, body })).status, 200);
});

test("a stranger's wrong codes lock nobody out, with or without a trusted proxy", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t, { SVC_TRUSTED_PROXIES: "127.0.0.1" });
  const form = (fields: Record<string, string>) => ({ method: "POST", body: new URLSearchParams(fields) });
  const opened = await (await fetch(`${platform.url}/device/code`, form({ machine: "m" }))).json();
  const { user_code: code } = opened as { user_code: string };
  const from = (address: string, guess: string) =>
    fetch(`${platform.url}/device?code=${guess}`, { headers: { "x-forwarded-for": address } });
  for (let i = 0; i < 20; i++) assert.equal((await from("6.6.6.6", "BBBB-BBBB")).status, 404);
  assert.equal((await from("6.6.6.6", "BBBB-BBBB")).status, 429, "who guesses is refused");
  assert.equal((await from("7.7.7.7", "BBBB-BBBB")).status, 404, "another is not");
  assert.equal((await from("6.6.6.6", code)).status, 200);
  const approved = await fetch(`${platform.url}/device`, {
    ...form({ code, key: platform.key, decision: "approve" }),
    headers: { "x-forwarded-for": "6.6.6.6" },
  });
  assert.equal(approved.status, 200);

  const seen = (trusted: string[], remoteAddress: string, forwarded: string) =>
    new ClientAddress(trusted).of({ socket: { remoteAddress }, headers: { "x-forwarded-for": forwarded } });
  assert.equal(seen([], "10.0.0.1", "1.1.1.1"), "10.0.0.1", "nobody is believed unasked");
  assert.equal(seen(["10.0.0.0/8"], "::ffff:10.0.0.1", "9.9.9.9, 1.1.1.1, 10.2.0.1"), "1.1.1.1");
  assert.equal(seen(["fd00::/8"], "fd00::1", "not an address"), "fd00::1");
});

test("a deploy key of one endpoint sees the secrets of that endpoint alone", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, {
    "main.py": `from svc import Endpoint, Secret

@Endpoint(name="one", workers=(0, 1), env={"A": Secret("first")})
def one() -> int:
    return 1

@Endpoint(name="two", workers=(0, 1), env={"B": Secret("second")})
def two() -> int:
    return 2
`,
  });
  for (const name of ["first", "second"]) {
    const set = await platform.svc(["secret", "set", name, "--app", "app", "--env", "production"], {
      cwd,
      input: "value-x",
    });
    assert.equal(set.code, 0, set.stderr);
  }
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const endpointId = (await platform.endpoints()).find(({ name }) => name === "one")!.id;
  const { createKey } = await platform.query<{ createKey: { secret: string } }>(
    `mutation($id: String) { createKey(input: { name: "k", scopes: ["deploy"], endpointId: $id }) { secret } }`,
    { id: endpointId },
  );
  const body = { query: "{ apps { environments { secrets { name } } } }" };
  const names = async (key: string) =>
    (await platform.call("/graphql", { key, body })).json.data.apps[0].environments[0].secrets.map(
      (secret: { name: string }) => secret.name,
    );
  assert.deepEqual(await names(createKey.secret), ["first"]);
  assert.deepEqual(await names(platform.key), ["first", "second"]);
});
