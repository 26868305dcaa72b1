/** Logs in a bucket with their index in PostgreSQL, on real servers. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import {
  LOG_CHUNK_MAX_BYTES,
  LOG_CHUNKS_PAGE,
  LOG_HELD_ALL_MAX_BYTES,
  LOG_HELD_MAX_BYTES,
  LOG_KEPT_LEAST_MS,
  LOG_KEPT_MAX_BYTES,
  LOG_KEPT_MS,
  LOG_ORPHAN_MS,
} from "../../src/domain/limits.ts";
import { BucketLogs, type BucketLogsOptions } from "../../src/logs/bucket-logs.ts";
import { ChunkIndex } from "../../src/logs/chunk-index.ts";
import { ChunkObjects } from "../../src/logs/chunk-objects.ts";
import { LogFiles } from "../../src/logs/log-files.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import { openPostgresStore } from "../../src/store/postgres-store.ts";
import { LINE, linesOf, logConformance, type OpenedLogs, textsOf } from "../conformance/logs.ts";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";

const found = await findPostgres();
const s3 = await findS3();
const skip = ("missing" in found && found.missing) || ("missing" in s3 && s3.missing);
/** Only what is told to be written is. */
const NEVER_MS = 1e9;
let count = 0;

describe("logs in a bucket", { skip }, () => {
  let server: PostgresServer;
  let bucketServer: S3Server;
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
    bucketServer = await startS3((s3 as { program: string }).program);
  });
  after(async () => {
    await bucketServer?.stop();
    await server?.stop();
  });

  interface Place {
    readonly postgres: Postgres;
    readonly bucket: Bucket;
    readonly folder: string;
    readonly index: ChunkIndex;
    readonly objects: ChunkObjects;
    open(given?: Partial<BucketLogsOptions>): BucketLogs;
    files(): string[];
  }

  /** A database and a prefix of its own. */
  async function place(t: TestContext, s3Server = bucketServer): Promise<Place> {
    const access = { url: parseDatabaseUrl(await server.database(`logs_${++count}`)), passwordFile: undefined };
    const postgres = new Postgres({ access, connectionsMax: 4 });
    await (await openPostgresStore(postgres)).close();
    const prefix = `${randomBytes(6).toString("hex")}/`;
    const bucket = await Bucket.open({ ...s3Server.settings, prefix });
    const opened: BucketLogs[] = [];
    t.after(async () => {
      await Promise.all(opened.map((logs) => logs.close()));
      bucket.close();
      await postgres.close();
    });
    const [index, objects] = [new ChunkIndex(postgres), new ChunkObjects(bucket)];
    const folder = path.join(path.dirname(s3Server.folder), prefix, "logs");
    const common = { index, objects, clock: () => 7, now: () => performance.now(), onError() {}, waitMs: NEVER_MS };
    const open = (given: Partial<BucketLogsOptions> = {}) => {
      const logs = new BucketLogs({ ...common, ...given });
      opened.push(logs);
      return logs;
    };
    return {
      postgres,
      bucket,
      folder,
      index,
      objects,
      open,
      files: () => globSync(path.join(folder, "*", "*")).sort(),
    };
  }

  logConformance("bucket", async (t, clock, mask) => {
    const { open } = await place(t);
    const opened = (): OpenedLogs => {
      const logs = open({ clock, ...(mask && { mask }) });
      const reopened = async () => {
        assert.equal(await logs.close(), 0);
        return opened();
      };
      return { logs, reopened };
    };
    return opened();
  });

  test("What was printed is written by itself, together, compressed, and an object that grows keeps its name", async (t) => {
    const { open, files } = await place(t);
    const logs = open({ waitMs: 1 });
    logs.append({ ...LINE, text: "one" });
    await eventually(() => assert.equal(files().length, 1));
    logs.append({ ...LINE, text: "two\n".repeat(1_000) });
    const text = () => zstdDecompressSync(readFileSync(files()[0]!)).toString();
    await eventually(() => assert.equal(text().split("\n").length, 1_002));
    assert.equal(files().length, 1);
    assert.ok(readFileSync(files()[0]!).length < 2_000);
    assert.match(files()[0]!, /\/a\/[0-9a-f-]+\.ndjson\.zst$/);
  });

  test("A flood becomes objects of at most 1 MiB of text each, all its lines are there in order, and who floods waits", async (t) => {
    const { open, files } = await place(t);
    const logs = open();
    const line = (n: number) => `${n} ${"x".repeat(5_000)}`;
    let waits = 0;
    for (let n = 0; n < 1_500; n++) {
      const wait = logs.append({ ...LINE, text: line(n) });
      if (wait !== undefined) {
        waits++;
        await wait;
      }
    }
    await logs.idle();
    assert.ok(waits > 0);
    const sizes = files().map((file) => zstdDecompressSync(readFileSync(file)).length);
    assert.ok(sizes.length >= 7 && sizes.every((size) => size <= LOG_CHUNK_MAX_BYTES), `${sizes}`);
    assert.deepEqual(
      (await textsOf(open())).map((text) => Number.parseInt(text, 10)),
      Array.from({ length: 1_500 }, (_, n) => n),
    );
  });

  test("While the bucket is away the newest lines are kept, a line says how many are not, and all goes on when it is back", async (t) => {
    const own = await startS3((s3 as { program: string }).program);
    t.after(() => own.stop());
    const { open, postgres } = await place(t, own);
    const logs = open({ waitMs: 1 });
    logs.append({ ...LINE, text: "before" });
    await logs.idle();
    await own.kill();
    await assert.rejects(
      async () => {
        logs.append({ ...LINE, text: "lost" });
        await logs.idle();
      },
      { code: "BUCKET_AWAY" },
    );
    const sent = 4_000;
    for (let n = 0; n < sent; n++) {
      // A bucket that is away makes nobody wait.
      assert.equal(logs.append({ ...LINE, text: `${n} ${"y".repeat(2_000)}` }), undefined);
    }
    logs.append({ ...LINE, text: "last" });
    const away = await textsOf(logs);
    assert.equal(away.at(-1), "last");
    assert.ok(
      away.some((text) => /^\[svc\] older lines cannot be read now: The bucket "layers".* does not answer/.test(text)),
    );
    await own.start();
    await eventually(() => logs.idle());
    const texts = await textsOf(open());
    assert.equal(texts[0], "before");
    const leftOut = texts.map((text) => /^\[svc\] (\d+) lines were left out here: the bucket/.exec(text)?.[1]);
    const kept = texts.filter((text) => /^\d+ y/.test(text)).length;
    const said = leftOut.filter((n) => n !== undefined).map(Number);
    assert.equal(said.length, 1);
    assert.equal(kept + said[0]! + texts.filter((text) => text === "lost").length, sent + 1);
    assert.ok(kept * 2_000 < LOG_HELD_MAX_BYTES && kept * 2_000 > LOG_HELD_MAX_BYTES / 2);
    assert.equal(texts.at(-1), "last");
    const { rows } = await postgres.query("SELECT count(*) AS n FROM log_chunks");
    assert.ok(rows[0].n >= 3);
  });

  test("What all endpoints print together while the bucket is away has a bound", async (t) => {
    const own = await startS3((s3 as { program: string }).program);
    t.after(() => own.stop());
    const { open } = await place(t, own);
    await own.kill();
    const logs = open();
    logs.append({ ...LINE, text: "one" });
    await assert.rejects(logs.idle(), { code: "BUCKET_AWAY" });
    for (let n = 0; n < 8_000; n++) {
      logs.append({ ...LINE, endpointId: `e${n % 100}`, text: "z".repeat(16_000) });
    }
    let bytes = 0;
    const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => linesOf(logs, `e${n}`)));
    for (const lines of ids) for (const line of lines) bytes += line.length;
    assert.ok(bytes < LOG_HELD_ALL_MAX_BYTES * 1.01, `${bytes}`);
    assert.ok(bytes > LOG_HELD_ALL_MAX_BYTES * 0.9, `${bytes}`);
  });

  test("A platform that is killed between object and row leaves an object that is deleted; one between row and object none", async (t) => {
    const { open, files, folder, index, postgres } = await place(t);
    const logs = open();
    logs.append({ ...LINE, text: "stays" });
    await logs.idle();
    const [kept] = files();
    const orphan = path.join(folder, "a", "0000-orphan.ndjson.zst");
    const young = path.join(folder, "a", "0000-young.ndjson.zst");
    for (const file of [orphan, young]) writeFileSync(file, zstdCompressSync("{}"));
    const old = Date.now() - 2 * LOG_ORPHAN_MS;
    for (const file of [orphan, kept!]) utimesSync(file, old / 1000, old / 1000);
    await open({ clock: Date.now }).sweep();
    // By the clock of the test the line is of 1970.
    assert.deepEqual(files(), [young], "what is too old goes too");
    assert.deepEqual(await index.endpointIds(), []);
    logs.append({ ...LINE, text: "again" });
    await logs.idle();
    await postgres.query("DELETE FROM log_chunks");
    await logs.forget("a");
    assert.deepEqual(await textsOf(logs), []);
  });

  test("What is older than it is kept goes, and so does what an endpoint has too much of", async (t) => {
    const { open, files, postgres } = await place(t);
    let now = 1_000;
    const logs = open({ clock: () => now });
    logs.append({ ...LINE, text: "old" });
    await logs.idle();
    now += LOG_KEPT_MS;
    logs.append({ ...LINE, endpointId: "b", text: "b's" });
    logs.append({ ...LINE, endpointId: "b", text: "x" });
    await logs.idle();
    now += 1;
    await logs.sweep();
    assert.deepEqual(await logs.endpointIds().then((ids) => ids.sort()), ["a", "b"]);
    assert.equal(files().length, 1);
    // As if they held much.
    await postgres.query(`INSERT INTO log_chunks
      SELECT 'full-' || n, 'b', ${now}, ${now} + n, 1, ${LOG_KEPT_MAX_BYTES / 4} FROM generate_series(1, 10) AS n`);
    now += 100;
    const again = open({ clock: () => now });
    again.append({ ...LINE, endpointId: "b", text: "newest" });
    await again.idle();
    const { rows } = await postgres.query("SELECT id FROM log_chunks WHERE endpoint_id = 'b' ORDER BY last_at");
    assert.deepEqual(rows.map(({ id }) => id).slice(0, -1), ["full-8", "full-9", "full-10"]);
  });

  test("How long lines are kept is a setting; their rows and objects go together, some at a time, and no more when the bucket is away", async (t) => {
    const own = await startS3((s3 as { program: string }).program);
    t.after(() => own.stop());
    const { open, files, folder, postgres } = await place(t, own);
    const many = 2 * LOG_CHUNKS_PAGE + 1;
    const now = Date.now() + 2 * LOG_ORPHAN_MS;
    const [old, young] = [now - LOG_KEPT_LEAST_MS - 1, now - LOG_KEPT_LEAST_MS + 60_000];
    const rows = async () => (await postgres.query("SELECT count(*) AS n FROM log_chunks")).rows[0].n;
    const fill = async () => {
      await postgres.query(`INSERT INTO log_chunks SELECT 'old-' || n, 'a', 1, ${old}, 1, 1 FROM generate_series(1, ${many}) AS n
        UNION ALL SELECT 'young', 'a', 1, ${young}, 1, 1 ON CONFLICT DO NOTHING`);
      mkdirSync(path.join(folder, "a"), { recursive: true });
      const names = ["young", ...Array.from({ length: many }, (_, n) => `old-${n + 1}`)];
      for (const name of names) writeFileSync(path.join(folder, "a", `${name}.ndjson.zst`), zstdCompressSync("{}\n"));
    };
    await fill();
    const logs = open({ clock: () => now, keptMs: LOG_KEPT_LEAST_MS });
    await open({ clock: () => now }).sweep();
    assert.equal(files().length, many + 1, "not by default");
    await logs.sweep();
    assert.deepEqual([await rows(), files().map((file) => path.basename(file))], [1, ["young.ndjson.zst"]]);

    await fill();
    await own.kill();
    await assert.rejects(logs.sweep(), { code: "BUCKET_AWAY" });
    assert.equal(await rows(), many + 1 - LOG_CHUNKS_PAGE);
    await own.start();
    await logs.sweep();
    assert.deepEqual([await rows(), files().length], [1, 1]);

    await fill();
    await own.kill();
    await logs.forget("a");
    assert.equal(await rows(), 0, "nobody reads what is to be forgotten");
    await own.start();
    await logs.sweep();
    assert.deepEqual(files(), []);
  });

  test("A read says what the bucket lost, what is damaged there, and that the database is away, and gives all else", async (t) => {
    const { open, files, postgres } = await place(t);
    let now = 1;
    for (const text of ["one", "two", "three", "four"]) {
      const logs = open({ clock: () => now++ });
      logs.append({ ...LINE, text });
      await logs.close();
    }
    const [one, two, three] = files();
    rmSync(one!);
    truncateSync(two!, 5);
    writeFileSync(three!, zstdCompressSync(Buffer.alloc(100 * LOG_CHUNK_MAX_BYTES)));
    const missing = "[svc] 1 lines are missing here: the bucket does not have them";
    const logs = open({ clock: () => 99 });
    logs.append({ ...LINE, text: "five" });
    assert.deepEqual(await textsOf(logs), [missing, missing, missing, "four", "five"]);
    await postgres.close();
    const [notice, ...rest] = await textsOf(logs);
    assert.match(notice!, /^\[svc\] older lines cannot be read now: /);
    assert.deepEqual(rest, ["five"]);
  });

  test("Logs that lie in files are moved to the bucket, once, before what came since", async (t) => {
    const { open, files: objects } = await place(t);
    const dir = mkdtempSync(path.join(tmpdir(), "svc-logs-"));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    let now = 10;
    const files = new LogFiles(dir, () => now);
    for (let n = 0; n < 300; n++) files.append({ ...LINE, text: `${n} ${"x".repeat(10_000)}` });
    await files.idle();
    now = 20;
    const logs = open({ files, clock: () => now });
    logs.append({ ...LINE, text: "since" });
    // As where an earlier one was killed before it removed the files.
    const copy = new LogFiles(mkdtempSync(path.join(dir, "copy-")), () => 10);
    for (let n = 0; n < 300; n++) copy.append({ ...LINE, text: `${n} ${"x".repeat(10_000)}` });
    await copy.idle();
    await open({ files: copy, clock: () => now }).sweep();
    const there = objects();
    await logs.sweep();
    assert.deepEqual(objects(), there);
    assert.equal(existsSync(path.join(dir, "a.ndjson")), false);
    assert.deepEqual(
      (await textsOf(logs)).map((text) => text.split(" ")[0]),
      [...Array.from({ length: 300 }, (_, n) => `${n}`), "since"],
    );
  });
});
