import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { databaseName, parseDatabaseUrl } from "../../src/postgres/database-url.ts";

describe("the URL of a database", () => {
  test("names user, password, hosts, database and how to get there", () => {
    const url = parseDatabaseUrl(
      "postgresql://ada:p%40ss%2F%3A@db1:5433,[fd00::1],db3/my%20jobs?sslmode=verify-full&sslrootcert=/ca.pem" +
        "&target_session_attrs=read-write&connect_timeout=3&application_name=blue",
    );
    const hosts = [
      { host: "db1", port: 5433 },
      { host: "fd00::1", port: 5432 },
      { host: "db3", port: 5432 },
    ];
    assert.deepEqual(url.hosts, hosts);
    assert.deepEqual([url.user, url.password, url.database], ["ada", "p@ss/:", "my jobs"]);
    assert.deepEqual([url.sslMode, url.sslRootCert, url.connectTimeoutMs], ["verify-full", "/ca.pem", 3000]);
    assert.equal(url.applicationName, "blue");
    assert.equal(databaseName(url), "PostgreSQL db1:5433,[fd00::1]:5432,db3:5432/my jobs");
  });

  test("may be short: the rest is as libpq has it", () => {
    const { hosts, user, database, sslMode, password } = parseDatabaseUrl("postgres://ada@");
    assert.deepEqual([hosts, user, database], [[{ host: "localhost", port: 5432 }], "ada", "ada"]);
    assert.deepEqual([sslMode, password], ["prefer", undefined]);
  });

  test("reaches a Unix socket by its folder", () => {
    const hosts = [{ host: "/var/run/postgresql", port: 5432 }];
    assert.deepEqual(parseDatabaseUrl("postgres:///svc?host=/var/run/postgresql").hosts, hosts);
    assert.deepEqual(parseDatabaseUrl("postgres://%2Fvar%2Frun%2Fpostgresql/svc").hosts, hosts);
  });

  test("with sslmode=require and a file of authorities, checks the certificate against it", () => {
    assert.equal(parseDatabaseUrl("postgres://a@h/d?sslmode=require&sslrootcert=/ca.pem").sslMode, "verify-ca");
    assert.equal(parseDatabaseUrl("postgres://a@h/d?sslmode=require&sslrootcert=system").sslMode, "require");
  });

  test("takes what managed offers put into it", () => {
    const neon =
      "postgresql://u:p@ep-x.eu.aws.neon.tech/db?sslmode=require&channel_binding=require&options=endpoint%3Dep-x";
    const { channelBinding, options } = parseDatabaseUrl(neon);
    assert.deepEqual([channelBinding, options], [true, "endpoint=ep-x"]);
    assert.equal(parseDatabaseUrl("postgres://u:p@pooler:6543/db?pgbouncer=true").hosts[0]!.port, 6543);
  });

  const refused: readonly [string, RegExp][] = [
    ["mysql://u:hunter2@h/d", /must be postgres:\/\//],
    ["postgres://u:hunter2/x@h/d", /percent|@ as %40/],
    ["postgres://u:hunter2@h:port/d", /HOST:PORT/],
    ["postgres://u:hunter2@h:70000/d", /HOST:PORT/],
    ["postgres://u:hunter2%@h/d", /percent-encoded/],
    ["postgres://u:hunter2%00@h/d", /percent-encoded/],
    ["postgres://u:hunter2@h/d?sslmode=sometimes", /sslmode must be one of/],
    ["postgres://u:hunter2@h/d?sslrootcert=ca.pem", /absolute path/],
    ["postgres://u:hunter2@h/d?target_session_attrs=standby", /target_session_attrs/],
    ["postgres://u:hunter2@h/d?connect_timeout=soon", /connect_timeout/],
    ["postgres://u:hunter2@h/d?colour=red", /"colour" is no parameter/],
    ["postgres://u:hunter2@h/d?application_name=a%0Ab", /application_name/],
    [`postgres://u:hunter2@${"h,".repeat(16)}h/d`, /more than 16 hosts/],
  ];
  for (const [text, words] of refused) {
    test(`is refused in a sentence without its password: ${text.slice(0, 60)}`, () => {
      assert.throws(
        () => parseDatabaseUrl(text),
        (error: Error) => words.test(error.message) && !error.message.includes("hunter2"),
      );
    });
  }

  test("never shows a password, whatever else is in it", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.string({ maxLength: 40 }), (before, after) => {
        try {
          assert.doesNotMatch(databaseName(parseDatabaseUrl(`postgres://u:hunter2${before}@h/${after}`)), /hunter2/);
        } catch (error) {
          assert.doesNotMatch((error as Error).message, /hunter2/);
        }
      }),
    );
  });
});
