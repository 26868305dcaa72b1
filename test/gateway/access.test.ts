import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, startPlatform, WORKER_TOKEN } from "./support.ts";

const JOB = "/v2/jobs/status/some-job";

interface Case {
  readonly title: string;
  readonly method: string;
  readonly path: string;
  /** Authorization; undefined: none. */
  readonly key: string | undefined;
  readonly status: number;
  readonly code: string;
  readonly detail?: RegExp;
  readonly header?: readonly [string, string];
}

const bearer = `Bearer ${KEY}`;

const CASES: Case[] = [
  {
    title: "no key",
    method: "POST",
    path: "/v2/jobs/run",
    key: undefined,
    status: 401,
    code: "MISSING_KEY",
    detail: /Authorization: Bearer/,
    header: ["www-authenticate", "Bearer"],
  },
  { title: "an empty key", method: "POST", path: "/v2/jobs/run", key: "Bearer", status: 401, code: "MISSING_KEY" },
  {
    title: "a wrong key",
    method: "POST",
    path: "/v2/jobs/run",
    key: "Bearer svc_wrong",
    status: 401,
    code: "WRONG_KEY",
  },
  {
    title: "a key of another scheme",
    method: "POST",
    path: "/v2/jobs/run",
    key: "Basic dXNlcjpwYXNz",
    status: 401,
    code: "WRONG_KEY",
  },
  {
    title: "a wrong key for an endpoint that does not exist",
    method: "POST",
    path: "/v2/none/run",
    key: "Bearer svc_wrong",
    status: 401,
    code: "WRONG_KEY",
  },
  {
    title: "a load-balanced call without a key",
    method: "GET",
    path: "/lb/web/",
    key: undefined,
    status: 401,
    code: "MISSING_KEY",
  },
  {
    title: "an unknown endpoint",
    method: "POST",
    path: "/v2/none/run",
    key: bearer,
    status: 404,
    code: "ENDPOINT_NOT_FOUND",
    detail: /"none"/,
  },
  {
    title: "an unknown load-balanced endpoint",
    method: "GET",
    path: "/lb/none/x",
    key: bearer,
    status: 404,
    code: "ENDPOINT_NOT_FOUND",
  },
  {
    title: "an unknown route",
    method: "POST",
    path: "/v2/jobs/walk",
    key: bearer,
    status: 404,
    code: "NOT_FOUND",
    detail: /\/runsync/,
  },
  { title: "no route", method: "GET", path: "/v2/jobs", key: bearer, status: 404, code: "NOT_FOUND" },
  {
    title: "a job id where none belongs",
    method: "POST",
    path: "/v2/jobs/run/some-job",
    key: bearer,
    status: 404,
    code: "NOT_FOUND",
  },
  {
    title: "no job id where one belongs",
    method: "GET",
    path: "/v2/jobs/status",
    key: bearer,
    status: 404,
    code: "NOT_FOUND",
  },
  { title: "too long a path", method: "GET", path: `${JOB}/more`, key: bearer, status: 404, code: "NOT_FOUND" },
  {
    title: "GET run",
    method: "GET",
    path: "/v2/jobs/run",
    key: bearer,
    status: 405,
    code: "METHOD_NOT_ALLOWED",
    header: ["allow", "POST"],
  },
  {
    title: "PUT status",
    method: "PUT",
    path: JOB,
    key: bearer,
    status: 405,
    code: "METHOD_NOT_ALLOWED",
    header: ["allow", "GET, POST"],
  },
  {
    title: "GET cancel",
    method: "GET",
    path: "/v2/jobs/cancel/x",
    key: bearer,
    status: 405,
    code: "METHOD_NOT_ALLOWED",
    header: ["allow", "POST"],
  },
  {
    title: "POST health",
    method: "POST",
    path: "/v2/jobs/health",
    key: bearer,
    status: 405,
    code: "METHOD_NOT_ALLOWED",
    header: ["allow", "GET"],
  },
  {
    title: "a queue call of a load-balanced endpoint",
    method: "POST",
    path: "/v2/web/run",
    key: bearer,
    status: 400,
    code: "WRONG_ENDPOINT_KIND",
    detail: /"the-web" is load-balanced.*\/lb\/web\//,
  },
  {
    title: "a load-balanced call of a queue-based endpoint",
    method: "GET",
    path: "/lb/jobs/hello",
    key: bearer,
    status: 400,
    code: "WRONG_ENDPOINT_KIND",
    detail: /"the-jobs" is queue-based.*\/v2\/jobs\/runsync/,
  },
  {
    title: "run with a key that may only read",
    method: "POST",
    path: "/v2/jobs/run",
    key: "svc_read-only",
    status: 403,
    code: "FORBIDDEN",
    detail: /needs invoke/,
  },
  {
    title: "cancel with a key that may only read",
    method: "POST",
    path: "/v2/jobs/cancel/x",
    key: "svc_read-only",
    status: 403,
    code: "FORBIDDEN",
  },
  {
    title: "a load-balanced call with a key that may only read",
    method: "GET",
    path: "/lb/web/",
    key: "svc_read-only",
    status: 403,
    code: "FORBIDDEN",
  },
  {
    title: "requests with a key that may only invoke",
    method: "GET",
    path: "/v2/jobs/requests",
    key: "svc_invoke-only",
    status: 403,
    code: "FORBIDDEN",
    detail: /needs read/,
  },
  {
    title: "a worker's token outside its environment",
    method: "POST",
    path: "/v2/jobs/run",
    key: WORKER_TOKEN,
    status: 403,
    code: "FORBIDDEN",
    detail: /own environment/,
  },
];

for (const { title, method, path, key, status, code, detail, header } of CASES) {
  test(`${title}: ${status} ${code}`, async (t) => {
    const platform = await startPlatform(t);
    const response = await fetch(platform.url + path, {
      method,
      headers: key === undefined ? {} : { authorization: key },
    });
    const text = await response.text();
    const body = JSON.parse(text);
    assert.equal(response.status, status);
    assert.equal(response.headers.get("content-type"), "application/json");
    assert.deepEqual(Object.keys(body), ["error", "status", "title", "detail", "code"]);
    const { error } = body;
    if (path.startsWith("/lb/")) assert.deepEqual([error.message, error.code], [body.detail, code]);
    else assert.equal(error, body.detail);
    assert.deepEqual([body.status, body.code], [status, code]);
    if (detail !== undefined) assert.match(body.detail, detail);
    if (header !== undefined) assert.equal(response.headers.get(header[0]), header[1]);
    assert.ok(
      !text.includes(KEY) && !text.includes("svc_wrong") && !text.includes(WORKER_TOKEN),
      "no key in an answer",
    );
    assert.deepEqual(platform.logged, []);
  });
}

const ALLOWED: [title: string, path: string, key: string][] = [
  ["the bare key without Bearer", "/v2/jobs/health", KEY],
  ["bearer in any case", "/v2/jobs/health", `bearer  ${KEY}`],
  ["health with a key that may only read", "/v2/jobs/health", "svc_read-only"],
  ["health with a key that may only invoke", "/v2/jobs/health", "svc_invoke-only"],
  ["requests with a key that may only read", "/v2/jobs/requests", "svc_read-only"],
];

for (const [title, path, authorization] of ALLOWED) {
  test(`accepted: ${title}`, async (t) => {
    const platform = await startPlatform(t);
    assert.equal((await platform.get(path, { authorization })).status, 200);
  });
}

test("a caller may look after its own call with a key that may only invoke", async (t) => {
  const platform = await startPlatform(t);
  const authorization = "svc_invoke-only";
  const { json } = await platform.post("/v2/jobs/run", { input: {} }, { authorization });
  assert.equal((await platform.get(`/v2/jobs/status/${json.id}`, { authorization })).status, 200);
});

test("a key may be checked and an endpoint found with a delay", async (t) => {
  const platform = await startPlatform(t, {
    deps: {
      keys: { check: async () => ({ kind: "key", id: "k", scopes: ["admin"], environmentId: null }) },
      endpoints: { find: async () => undefined },
    },
  });
  assert.equal((await platform.get("/v2/jobs/health")).json.code, "ENDPOINT_NOT_FOUND");
});

test("an unexpected failure is answered without its details, and logged without key and body", async (t) => {
  const platform = await startPlatform(t, {
    deps: {
      endpoints: {
        find() {
          throw new Error("disk /data is on fire");
        },
      },
    },
  });
  const { status, json, text } = await platform.post("/v2/jobs/run", { input: { secret: "of-the-caller" } });
  assert.deepEqual([status, json.code], [500, "INTERNAL"]);
  assert.ok(!text.includes("on fire"));
  assert.equal(platform.logged.length, 1);
  assert.ok(!platform.logged[0]!.includes(KEY) && !platform.logged[0]!.includes("of-the-caller"));
});

test("everything that is not for an endpoint goes to the fallback", async (t) => {
  const platform = await startPlatform(t, { fallback: (req, res) => res.end(`control plane: ${req.url}`) });
  assert.equal((await platform.post("/graphql?api_key=x", {})).text, "control plane: /graphql?api_key=x");
  assert.equal((await platform.get("/")).text, "control plane: /");
});

test("a fallback that throws is answered with the error body", async (t) => {
  const platform = await startPlatform(t, {
    fallback: () => {
      throw new Error("oops");
    },
  });
  assert.equal((await platform.get("/graphql")).json.code, "INTERNAL");
});
