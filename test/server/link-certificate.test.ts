import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fingerprint, selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { openLinkCertificate } from "../../src/server/link-certificate.ts";

test("The certificate of the worker link is made once, for its owner's eyes only, and a damaged one is not replaced", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-certificate-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "worker-link.pem");
  const made = await openLinkCertificate(dir);
  assert.equal(fingerprint((await openLinkCertificate(dir)).cert), fingerprint(made.cert));
  assert.deepEqual(readdirSync(dir), ["worker-link.pem"]);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  writeFileSync(file, made.cert);
  await assert.rejects(openLinkCertificate(dir), { code: "DATA_DIRECTORY", help: /backup/ });
});

test("A certificate made here is signed by its own key and does not end", () => {
  for (let count = 0; count < 50; count += 1) {
    const { key, cert } = selfSignedCertificate("svc");
    const parsed = new X509Certificate(cert);
    assert.ok(parsed.verify(parsed.publicKey));
    assert.equal(parsed.subject, "CN=svc");
    assert.equal(parsed.issuer, "CN=svc");
    assert.equal(parsed.serialNumber.length, 32);
    assert.equal(parsed.validToDate.getUTCFullYear(), 9999);
    assert.notEqual(key, "");
    assert.equal(fingerprint(cert), parsed.fingerprint256.replaceAll(":", "").toLowerCase());
  }
});
