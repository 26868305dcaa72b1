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

/** `isConstraintError` tells a broken constraint of this database from other failures. */
export function createSqlStore(
  db: Kysely<Tables>,
  isConstraintError: (error: unknown) => boolean,
  env: EnvColumn,
): Store {
  const listeners: ((change: StoreChange) => void)[] = [];
  const emit = (change: StoreChange) => {
    for (const listener of listeners) listener(change);
  };
  const guard: Guard = async (message, statement) => {
    try {
      return await statement;
    } catch (error) {
      throw isConstraintError(error) ? new SvcError("CONFLICT", message, { cause: error }) : error;
    }
  };
  const onChange = (listener: (change: StoreChange) => void) => void listeners.push(listener);

  return {
    ...repositories({ db, changed: emit, guard, env }),
    onChange,
    async transaction(work) {
      const changes: StoreChange[] = [];
      const result = await db.transaction().execute(async (trx) => {
        const inner: Store = {
          ...repositories({ db: trx, changed: (change) => void changes.push(change), guard, env }),
          onChange,
          // Already inside: part of the same all-or-nothing.
          transaction: (nested) => nested(inner),
          close: async () => {},
        };
        return work(inner);
      });
      for (const change of changes) emit(change);
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
