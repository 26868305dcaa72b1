/**
 * A primary and a synchronous standby of tests, which change places:
 *
 *   primary A ──streams──▶ standby B      A is killed, B promoted: B takes writes, alone
 *   primary B ──streams──▶ standby A      A anew, at the same port: a copy of B
 */
import assert from "node:assert/strict";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type PostgresServer, startPostgres } from "./postgres.ts";

export interface PostgresPair {
  /** Names both; whichever takes writes is found. */
  readonly url: string;
  readonly primary: PostgresServer;
  /** A standby that has all that was committed, and that every commit waits for from here on. */
  makeStandby(): Promise<void>;
  /** Kills the primary and promotes the standby. */
  failOver(): Promise<void>;
  stop(): Promise<void>;
}

export async function startPostgresPair(bin: string): Promise<PostgresPair> {
  const ports = [await freePort(), await freePort()];
  let primary = await startPostgres(bin, { durable: true, port: ports[0]! });
  let standby: PostgresServer | undefined;
  const wait = async (server: PostgresServer, names: string) => {
    await server.sql(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await server.sql("SELECT pg_reload_conf()");
  };
  return {
    url: `postgres://svc@${ports.map((port) => `127.0.0.1:${port}`).join(",")}/svc?target_session_attrs=read-write`,
    get primary() {
      return primary;
    },
    async makeStandby() {
      const port = ports.find((one) => one !== primary.port)!;
      standby = await startPostgres(bin, { durable: true, port, standbyOf: primary });
      await wait(primary, "*");
      await eventually(async () => {
        const state = "SELECT state || ' ' || sync_state FROM pg_stat_replication";
        assert.equal(await primary.sql(state), "streaming sync");
      });
      // What was committed before is there when this is.
      await primary.sql("CREATE TABLE IF NOT EXISTS marks (n int); INSERT INTO marks VALUES (1)");
    },
    async failOver() {
      const [before, next] = [primary, standby!];
      await before.kill("SIGQUIT");
      await next.sql("SELECT pg_promote()");
      primary = next;
      standby = undefined;
      // Nothing follows it yet: it would wait for ever.
      await wait(primary, "");
      await before.stop();
    },
    async stop() {
      await standby?.stop();
      await primary.stop();
    },
  };
}
