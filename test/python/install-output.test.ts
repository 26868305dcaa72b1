import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  installComplaint,
  installFailure,
  installStep,
  networkComplaint,
  withoutCredentials,
} from "../../src/python/install-output.ts";

const PIP = `Looking in indexes: https://me:pw@example.org/simple
Collecting numpy>=1.26
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl.metadata (6.6 kB)
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl (16.9 MB)
  Using cached https://files.example.org/packages/six-1.17.0-py2.py3-none-any.whl (11 kB)
Installing collected packages: numpy
WARNING: Target directory /tmp/x/numpy already exists. Specify --upgrade to force replacement.
Successfully installed numpy-2.4.6`;
const UV = `Using CPython 3.11.2 interpreter at: /usr/bin/python3
Resolved 1 package in 148ms
Downloading numpy (16.1MiB)
 Downloaded numpy
Prepared 1 package in 578ms
Installed 1 package in 18ms
 + numpy==2.4.6`;

describe("what an installer prints", () => {
  test("is told to people as what is being installed, without warnings and repetitions", () => {
    const steps = (text: string) => text.split("\n").flatMap((line) => installStep(line) ?? []);
    assert.deepEqual(steps(PIP), [
      "looking up numpy",
      "installing numpy 2.4.6 (16.9 MB)",
      "installing six 1.17.0 (11 kB)",
    ]);
    assert.deepEqual(steps(UV), ["installing numpy (16.9 MB)"]);
  });

  test("gives one kind of failure, and a broken network is not taken for a wrong name", () => {
    const retried = `WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError'
ERROR: Could not find a version that satisfies the requirement numpy (from versions: none)
ERROR: No matching distribution found for numpy`;
    assert.equal(installFailure(retried), "network");
    assert.equal(
      installFailure("  cause: error sending request for url (http://127.0.0.1:1/simple/numpy/)"),
      "network",
    );
    assert.equal(installFailure("ERROR: No matching distribution found for nope"), "not-found");
    assert.equal(installFailure("  hint: Because nope was not found in the package registry"), "not-found");
    assert.equal(installFailure("ERROR: ResolutionImpossible: for help visit …"), "conflict");
    assert.equal(installFailure("ERROR: 401 Client Error: Unauthorized"), "credentials");
    assert.equal(installFailure("Killed"), "other");
    assert.deepEqual(installComplaint(retried, 1), ["No matching distribution found for numpy"]);
  });

  test("gives the reason why no index was reached, without what the installer says around it", () => {
    const pip = (
      error: string,
    ) => `WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by '${error}': /simple/six/
ERROR: Could not find a version that satisfies the requirement six (from versions: none)`;
    const refused =
      "NewConnectionError('<pip._vendor.HTTPSConnection object at 0x7f00>: Failed to connect: [Errno 111] refused')";
    const untrusted =
      "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] unable to verify (_ssl.c:1006)'))";
    const late = `ReadTimeoutError("HTTPSConnectionPool(host='127.0.0.1', port=1): Read timed out. (read timeout=15)")`;
    const uv = `error: Failed to fetch: http://127.0.0.1:1/simple/numpy/
  Caused by: error sending request for url (http://127.0.0.1:1/simple/numpy/)
  Caused by: invalid peer certificate: UnknownIssuer`;
    assert.deepEqual([pip(refused), pip(untrusted), pip(late), uv, "Killed"].map(networkComplaint), [
      "Failed to connect: [Errno 111] refused",
      "[SSL: CERTIFICATE_VERIFY_FAILED] unable to verify (_ssl.c:1006)",
      "HTTPSConnectionPool(host='127.0.0.1', port=1): Read timed out. (read timeout=15)",
      "invalid peer certificate: UnknownIssuer",
      "",
    ]);
  });

  test("shows no credentials of an index", () => {
    assert.equal(withoutCredentials("at https://me:pw@example.org/simple"), "at https://***@example.org/simple");
  });
});
