import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe } from "node:test";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { S3BodyStore } from "../../src/queue/bodies/s3-body-store.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import { bodiesConformance } from "../conformance/bodies.ts";
import { findS3, startS3 } from "../s3.ts";

for (const sync of [false, true]) {
  bodiesConformance(sync ? "disk, synced" : "disk", async () => {
    const dir = mkdtempSync(join(tmpdir(), "svc-bodies-"));
    return { store: await DiskBodyStore.open(dir, sync), close: async () => rmSync(dir, { recursive: true }) };
  });
}

const found = await findS3();
describe("in a bucket", { skip: "missing" in found && found.missing }, async () => {
  const server = "program" in found ? await startS3(found.program) : undefined;
  after(() => server?.stop());
  bodiesConformance("S3", async () => {
    const bucket = await Bucket.open({ ...server!.settings, prefix: `${randomBytes(6).toString("hex")}/` });
    return { store: new S3BodyStore(bucket), close: async () => bucket.close() };
  });
});
