/** The store over any database Kysely speaks. Changes are told to listeners only after their commit. */
import type { Kysely } from "kysely";
import { SvcError } from "../domain/errors.ts";
import type { EnvColumn } from "./sealed-env.ts";
import type { Guard, Session } from "./session.ts";
import { alertRepository } from "./sql-alerts.ts";
import { appRepository, buildRepository, environmentRepository } from "./sql-apps.ts";
import { endpointRepository, workerRepository } from "./sql-endpoints.ts";
import { hostRepository } from "./sql-hosts.ts";
import { consoleSessionRepository, keyRepository, secretRepository } from "./sql-keys.ts";
import { auditRepository, deployRepository } from "./sql-records.ts";
import { networkVolumeRepository, registryAuthRepository, templateRepository } from "./sql-templates.ts";
import type { Store, StoreChange } from "./store.ts";
import type { Tables } from "./tables.ts";

export type ChangeListener = Parameters<Store["onChange"]>[0];

/** Tells each change to all, in order. Undefined: nobody has to be waited for. */
export function tellAll(
  listeners: readonly ChangeListener[],
  changes: readonly StoreChange[],
): Promise<void> | undefined {
  const waits = changes.flatMap((change) => listeners.map((listener) => listener(change)));
  const promises = waits.filter((wait) => wait instanceof Promise);
  return promises.length === 0 ? undefined : Promise.all(promises).then(() => {});
}

/** In what databases differ. */
export interface DatabaseWays {
  /** Tells a broken constraint from other failures. */
  isConstraintError(error: unknown): boolean;
  /** First work of every transaction: from here to its end no other writes. */
  lock(trx: Kysely<Tables>): Promise<void>;
  readonly onChange: Store["onChange"];
  /** Told of what was just committed, in order; the write waits for it. */
  committed(changes: readonly StoreChange[]): Promise<void> | void;
}

export function createSqlStore(db: Kysely<Tables>, env: EnvColumn, ways: DatabaseWays): Store {
  const { isConstraintError, onChange } = ways;
  const guard: Guard = async (message, statement) => {
    try {
      return await statement;
    } catch (error) {
      throw isConstraintError(error) ? new SvcError("CONFLICT", message, { cause: error }) : error;
    }
  };
  const begin = <T>(work: (trx: Kysely<Tables>) => Promise<T>): Promise<T> =>
    db.transaction().execute(async (trx) => {
      await ways.lock(trx);
      return work(trx);
    });

  return {
    ...repositories({ db, changed: (...changes) => ways.committed(changes), alone: begin, guard, env }),
    onChange,
    async transaction(work) {
      const changes: StoreChange[] = [];
      const result = await begin(async (trx) => {
        const inner: Store = {
          ...repositories({
            db: trx,
            changed: (...more) => void changes.push(...more),
            alone: (some) => some(trx),
            guard,
            env,
          }),
          onChange,
          // Already inside: part of the same all-or-nothing.
          transaction: (nested) => nested(inner),
          close: async () => {},
        };
        return work(inner);
      });
      if (changes.length > 0) await ways.committed(changes);
      return result;
    },
    async close() {
      await db.destroy();
    },
  };
}

function repositories(session: Session) {
  return {
    apps: appRepository(session),
    environments: environmentRepository(session),
    builds: buildRepository(session),
    endpoints: endpointRepository(session),
    workers: workerRepository(session),
    keys: keyRepository(session),
    consoleSessions: consoleSessionRepository(session),
    secrets: secretRepository(session),
    templates: templateRepository(session),
    deploys: deployRepository(session),
    audit: auditRepository(session),
    registryAuths: registryAuthRepository(session),
    networkVolumes: networkVolumeRepository(session),
    alerts: alertRepository(session),
    hosts: hostRepository(session),
  };
}
