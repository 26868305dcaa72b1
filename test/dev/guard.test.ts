import assert from "node:assert/strict";
import type { IncomingHttpHeaders } from "node:http";
import { describe, test } from "node:test";
import { refusalOf } from "../../src/dev/guard.ts";

const LOCAL = { host: "localhost" };
const post = (headers: IncomingHttpHeaders, url = "/cpu_worker/runsync") => ({ method: "POST", url, headers });
const passes = (headers: IncomingHttpHeaders, options: Parameters<typeof refusalOf>[1] = LOCAL) =>
  refusalOf(post(headers), options) === undefined;

describe("the local server's guard", () => {
  test("lets programs call it by its own names, at whatever port they came through", () => {
    for (const host of [
      "localhost",
      "localhost:8888",
      "127.0.0.1:8889",
      "[::1]:8888",
      "[::1]",
      "LocalHost:1",
      "localhost.:80",
    ])
      assert.ok(passes({ host }), host);
    assert.ok(passes({ host: "box.lan:8888" }, { host: "box.lan" }));
    assert.ok(passes({ host: "192.168.1.7:8888" }, { host: "192.168.1.7" }));
  });

  test("refuses another name, which a page could have pointed here", () => {
    for (const host of [
      undefined,
      "",
      "evil.example",
      "evil.example:8888",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "192.168.1.7:8888",
      "localhost:8888:1",
      "localhost@evil.example",
      "evil.example#localhost",
      "[::1",
      " ",
    ])
      assert.ok(!passes({ host }), String(host));
    const refusal = refusalOf(post({ host: "evil.example:8888" }), LOCAL)!;
    assert.match(refusal.message, /"evil\.example:8888"/);
    assert.match(refusal.help, /--host evil\.example/);
  });

  test("bound to all addresses it answers to any address, and still to no strange name", () => {
    for (const bound of ["0.0.0.0", "::"]) {
      assert.ok(passes({ host: "192.168.1.7:8888" }, { host: bound }));
      assert.ok(passes({ host: "[fe80::1]:8888" }, { host: bound }));
      assert.ok(!passes({ host: "evil.example" }, { host: bound }));
    }
  });

  test("lets its own page call it, and refuses pages of other origins", () => {
    const host = "localhost:8888";
    assert.ok(passes({ host, origin: "http://localhost:8888", "sec-fetch-site": "same-origin" }));
    assert.ok(passes({ host: "localhost:9443", origin: "https://localhost:9443" }));
    for (const origin of [
      "http://evil.example",
      "http://localhost:3000",
      "http://127.0.0.1:8888",
      "null",
      "",
      "http://localhost:8888.evil.example",
    ])
      assert.ok(!passes({ host, origin }), origin);
    assert.match(refusalOf(post({ host, origin: "http://evil.example" }), LOCAL)!.help, /cors=/);
  });

  test("refuses what a strange page makes a browser fetch without an Origin: images, forms, links", () => {
    const host = "localhost:8888";
    for (const site of ["cross-site", "same-site"]) {
      assert.ok(
        refusalOf(
          {
            method: "GET",
            url: "/lb_worker/health",
            headers: { host, "sec-fetch-site": site, "sec-fetch-mode": "no-cors" },
          },
          LOCAL,
        ),
      );
      const link = { host, "sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
      assert.ok(refusalOf({ method: "GET", url: "/lb_worker/health", headers: link }, LOCAL));
      assert.equal(refusalOf({ method: "GET", url: "/docs", headers: link }, LOCAL), undefined);
      assert.ok(refusalOf({ method: "GET", url: "/docs", headers: { ...link, "sec-fetch-dest": "iframe" } }, LOCAL));
    }
    assert.ok(passes({ host, "sec-fetch-site": "none" }), "an address typed by the user");
  });

  test("lets pages of an origin call that was asked for", () => {
    const host = "localhost:8888";
    const cors = "https://shop.example,http://localhost:3000";
    assert.ok(passes({ host, origin: "http://localhost:3000" }, { ...LOCAL, cors }));
    assert.ok(!passes({ host, origin: "http://localhost:3001" }, { ...LOCAL, cors }));
    assert.ok(passes({ host, origin: "https://any.example", "sec-fetch-site": "cross-site" }, { ...LOCAL, cors: "*" }));
    assert.ok(!passes({ host: "evil.example", origin: "https://shop.example" }, { ...LOCAL, cors: "*" }));
  });
});
