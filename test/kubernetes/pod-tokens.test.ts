/** Which tokens let a Pod in: signed ones of this cluster, for this platform, bound to a Pod. The keys are made here, as an API server makes them. */
import assert from "node:assert/strict";
import { createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { PodTokens } from "../../src/kubernetes/pod-tokens.ts";

const NOW_S = 1_800_000_000;
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const other = generateKeyPairSync("rsa", { modulusLength: 2048 });
const CLAIMS = {
  ...{ aud: ["svc:ns:svc"], exp: NOW_S + 60, nbf: NOW_S - 60, iss: "https://kubernetes.default.svc" },
  "kubernetes.io": { namespace: "ns", pod: { name: "p", uid: "u" }, serviceaccount: { name: "svc-host", uid: "s" } },
};

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
function token(
  claims: object = CLAIMS,
  head: object = { alg: "RS256", kid: "r" },
  key: KeyObject = rsa.privateKey,
): string {
  const text = `${encoded(head)}.${encoded(claims)}`;
  const given = key.asymmetricKeyType === "ec" ? { key, dsaEncoding: "ieee-p1363" as const } : key;
  return `${text}.${sign("sha256", Buffer.from(text), given).toString("base64url")}`;
}

function open() {
  const asked: string[] = [];
  const jwks = {
    keys: [
      { ...rsa.publicKey.export({ format: "jwk" }), kid: "r", use: "sig", alg: "RS256" },
      { ...ec.publicKey.export({ format: "jwk" }), kid: "e", use: "sig", alg: "ES256" },
    ],
  };
  const api = {
    namespace: "ns",
    ask: async (_method: string, where: string) => {
      asked.push(where);
      return jwks;
    },
  };
  const tokens = new PodTokens({ api, audience: "svc:ns:svc", account: "svc-host", nowS: () => NOW_S });
  return { tokens, asked };
}

test("A Pod is known by its token, signed by either kind of key; the keys are read once", async () => {
  const { tokens, asked } = open();
  assert.deepEqual(await tokens.podOf(token()), { name: "p", uid: "u" });
  assert.deepEqual(await tokens.podOf(token(CLAIMS, { alg: "ES256", kid: "e" }, ec.privateKey)), {
    name: "p",
    uid: "u",
  });
  assert.deepEqual(asked, ["/openid/v1/jwks"]);
});

test("A token of another cluster, platform, namespace or account, without a Pod, or out of date is refused in words", async () => {
  const { tokens } = open();
  const of = (changes: object) => ({ ...CLAIMS["kubernetes.io"], ...changes });
  const refused: [string, RegExp][] = [
    [token(CLAIMS, { alg: "RS256", kid: "r" }, other.privateKey), /signature of its token is wrong/],
    [token(CLAIMS, { alg: "RS256", kid: "unknown" }, other.privateKey), /another cluster/],
    [token({ ...CLAIMS, aud: ["https://kubernetes.default.svc"] }), /for somebody else/],
    [token({ ...CLAIMS, aud: "svc:ns:svc2" }), /for somebody else/],
    [token({ ...CLAIMS, exp: NOW_S }), /expired/],
    [token({ ...CLAIMS, nbf: NOW_S + 10 }), /expired/],
    [token({ ...CLAIMS, "kubernetes.io": of({ namespace: "other" }) }), /another service account/],
    [token({ ...CLAIMS, "kubernetes.io": of({ serviceaccount: { name: "default" } }) }), /another service account/],
    [token({ ...CLAIMS, "kubernetes.io": of({ pod: undefined }) }), /not bound to a Pod/],
    [token({ ...CLAIMS, exp: undefined }), /not bound to a Pod/],
  ];
  for (const [text, words] of refused) assert.match(String(await tokens.podOf(text)), words);
});

test("No token that is not signed by the API server's key gets in: none, HMAC with the public key, one key's kind for another's, changed claims", async () => {
  const { tokens } = open();
  const text = `${encoded({ alg: "none", kid: "r" })}.${encoded(CLAIMS)}`;
  assert.equal(typeof (await tokens.podOf(`${text}.`)), "string");
  const hmac = `${encoded({ alg: "HS256", kid: "r" })}.${encoded(CLAIMS)}`;
  const pem = rsa.publicKey.export({ type: "spki", format: "pem" });
  assert.equal(
    typeof (await tokens.podOf(`${hmac}.${createHmac("sha256", pem).update(hmac).digest("base64url")}`)),
    "string",
  );
  assert.equal(typeof (await tokens.podOf(token(CLAIMS, { alg: "ES256", kid: "r" }))), "string");
  assert.equal(typeof (await tokens.podOf(token(CLAIMS, { alg: "RS256", kid: "e" }))), "string");
  const [head, , signature] = token().split(".");
  const forged = { ...CLAIMS, "kubernetes.io": { ...CLAIMS["kubernetes.io"], pod: { name: "x", uid: "x" } } };
  assert.match(String(await tokens.podOf(`${head}.${encoded(forged)}.${signature}`)), /signature/);
});

test("Any text is refused or is no token, and unknown keys do not make the platform read the API server's again and again", async () => {
  const { tokens, asked } = open();
  const part = fc.base64String().map((text) => text.replace(/[+/=]/g, ""));
  await fc.assert(
    fc.asyncProperty(fc.tuple(part, part, part), async (parts) => {
      assert.equal(typeof (await tokens.podOf(parts.join("."))), "string");
    }),
  );
  for (let n = 0; n < 50; n++) await tokens.podOf(token(CLAIMS, { alg: "RS256", kid: `k${n}` }, other.privateKey));
  assert.equal(asked.length, 1);
  for (const text of ["", "svch_abc", "a.b", "a.b.c.d", `${"a".repeat(9_000)}.b.c`])
    assert.equal(PodTokens.isOne(text), false);
});
