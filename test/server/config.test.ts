import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../src/server/config.ts";

test("Nothing listens beyond this machine unless asked", () => {
  assert.equal(readConfig({ SVC_DATA_DIR: "/d" }).host, "127.0.0.1");
});

test("Every wrong key is named at once", () => {
  assert.throws(() => readConfig({ SVC_DATA_DIR: "/d", SVC_PORT: "x", SVC_DURABILITY: "maybe" }), {
    code: "CONFIG_INVALID",
    message: /SVC_PORT.*SVC_DURABILITY/s,
  });
});

test("An empty or blank variable counts as not set", () => {
  for (const SVC_PORT of ["", " ", "\r"]) assert.equal(readConfig({ SVC_DATA_DIR: "/d", SVC_PORT }).port, 7878);
});

test("What counts ports, workers, calls and jobs is a whole number", () => {
  for (const key of ["SVC_PORT", "SVC_WORKER_QUOTA", "SVC_PUBLIC_RATE_LIMIT", "SVC_QUEUE_LIMIT"]) {
    const refused = { code: "CONFIG_INVALID", message: new RegExp(`^${key}: must be a whole number from `) };
    assert.throws(() => readConfig({ SVC_DATA_DIR: "/d", [key]: "80.5" }), refused);
  }
});

test("The public address is one that callers can open, and paths can be put behind it", () => {
  const address = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_PUBLIC_URL: text }).publicUrl;
  assert.equal(address(), undefined);
  assert.equal(address("https://svc.example.org/"), "https://svc.example.org");
  assert.equal(address("HTTP://Svc.example.org:7878/some/path//"), "http://svc.example.org:7878/some/path");
  for (const wrong of [
    ...["svc.example.org", "svc.example.org:7878", "ftp://svc.example.org", "https://", "/svc", "https://a b"],
    ...["https://svc.example.org/?a=b", "https://svc.example.org/#a", "https://svc:hunter2@svc.example.org"],
  ]) {
    const refused = (error: Error) =>
      /^SVC_PUBLIC_URL: is not an address such as https:/.test(error.message) && !error.message.includes("hunter2");
    assert.throws(() => address(wrong), refused, wrong);
  }
});

test("The domain is the name of a host, and nothing beside it", () => {
  const domain = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_DOMAIN: text }).domain;
  for (const right of ["localhost", "svc.example.org", "Svc-1.example.org"]) assert.equal(domain(right), right);
  assert.equal(domain(), "");
  for (const wrong of [
    ...["https://svc.example.org", "svc.example.org:8443", "*.example.org", ".example.org", "example.org."],
    ...["svc.example.org/x", "a b", `${"a".repeat(64)}.org`],
  ]) {
    assert.throws(() => domain(wrong), { code: "CONFIG_INVALID", message: /^SVC_DOMAIN: is not the name of a host/ });
  }
});

test("Rate limits are off, as documented, or as named", () => {
  const limits = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_RATE_LIMITS: text }).rateLimits;
  assert.equal(limits(), undefined);
  assert.equal(limits("0"), undefined);
  assert.equal(limits("1")?.run, 1000);
  assert.deepEqual([limits("run=5, purge=1")?.run, limits("run=5,purge=1")?.cancel], [5, 100]);
  assert.throws(() => limits("walk=5"), {
    code: "CONFIG_INVALID",
    message: /SVC_RATE_LIMITS.*"walk=5".*the classes are run/,
  });
});

test("Workers of other machines may dial in by TLS only, and nowhere unless asked", () => {
  const listen = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_WORKER_LISTEN: text }).workerListen;
  assert.equal(listen(), undefined);
  assert.deepEqual(listen("tls://0.0.0.0:7443"), { host: "0.0.0.0", port: 7443 });
  assert.deepEqual(listen("tls://[::1]:0"), { host: "::1", port: 0 });
  for (const wrong of ["tcp://0.0.0.0:7443", "0.0.0.0:7443", "tls://host", "tls://host:70000", "tls://:1"]) {
    assert.throws(() => listen(wrong), { code: "CONFIG_INVALID", message: /SVC_WORKER_LISTEN.*is not tls:/ });
  }
});

test("Emulated GPUs are members of GpuType or product strings, and every other name is refused", () => {
  const gpus = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_EMULATED_GPUS: text }).emulatedGpus;
  assert.deepEqual(gpus(), []);
  assert.deepEqual(gpus("NVIDIA_L4, NVIDIA_L4,NVIDIA H200"), ["NVIDIA L4", "NVIDIA L4", "NVIDIA H200"]);
  assert.throws(() => gpus("NVIDIA_L4,L5"), { code: "CONFIG_INVALID", message: /SVC_EMULATED_GPUS.*"L5" is no GPU/ });
});

test("Platforms share their endpoints where each finds what it needs, and with nothing that belongs to one of them", () => {
  const url = { SVC_DATABASE_URL: "postgres://svc@db/svc", SVC_S3_BUCKET: "my-bucket" };
  const shares = (given: Record<string, string>) =>
    readConfig({ SVC_DATA_DIR: "/d", SVC_SHARE_SHARDS: "1", ...given }).database?.sharesShards;
  const machines = { SVC_WORKER_LISTEN: "tls://127.0.0.1:7443", SVC_LOCAL_WORKERS: "0" };
  assert.equal(shares(url), true);
  assert.equal(shares({ ...url, ...machines }), true);
  assert.equal(readConfig({ SVC_DATA_DIR: "/d", ...url }).database?.sharesShards, false);
  for (const [given, message] of [
    [{}, /counts only with SVC_DATABASE_URL/],
    [{ SVC_DATABASE_URL: url.SVC_DATABASE_URL }, /needs a bucket/],
    [
      { ...url, SVC_GATEWAYS: "2" },
      /^SVC_SHARE_SHARDS: cannot be used with SVC_GATEWAYS.*Leave SVC_GATEWAYS out.*start a further platform/,
    ],
    [{ ...url, SVC_WORKER_LISTEN: "tls://127.0.0.1:7443" }, /needs SVC_LOCAL_WORKERS=0/],
    [{ ...url, ...machines, SVC_WORKER_LISTEN: "tls://0.0.0.0:7443" }, /needs SVC_WORKER_PUBLIC/],
    [{ SVC_DATABASE_URL: url.SVC_DATABASE_URL, ...machines }, /needs a bucket/],
  ] as const) {
    assert.throws(() => shares(given), { code: "CONFIG_INVALID", message });
  }
});

test("How long logs are kept is a number of seconds within bounds, and counts only where they are in a bucket", () => {
  const both = { SVC_DATABASE_URL: "postgres://svc@db/svc", SVC_S3_BUCKET: "my-bucket" };
  const keptMs = (text?: string, given: Record<string, string | undefined> = both) =>
    readConfig({ SVC_DATA_DIR: "/d", ...given, SVC_LOG_RETENTION_S: text }).logsKeptMs;
  assert.equal(keptMs(), 30 * 24 * 3_600_000);
  assert.equal(keptMs("7200"), 7_200_000);
  for (const wrong of ["0", "3599", "400000000", "30d", "NaN", "-1"]) {
    assert.throws(
      () => keptMs(wrong),
      { code: "CONFIG_INVALID", message: /SVC_LOG_RETENTION_S.* from 3600 to / },
      wrong,
    );
  }
  for (const given of [{}, { SVC_DATABASE_URL: both.SVC_DATABASE_URL }, { SVC_S3_BUCKET: both.SVC_S3_BUCKET }]) {
    assert.equal(keptMs(undefined, given), 30 * 24 * 3_600_000);
    const refused = { code: "CONFIG_INVALID", message: /counts only with SVC_DATABASE_URL and SVC_S3_BUCKET/ };
    assert.throws(() => keptMs("7200", given), refused);
  }
});
