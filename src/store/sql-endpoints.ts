import type { EndpointContainer } from "../domain/container.ts";
import type { Session } from "./session.ts";
import { BRIEF_FIELDS, type Endpoint, type EndpointRepository, type WorkerRepository } from "./store.ts";
import type { Tables } from "./tables.ts";

export function endpointRepository({ db, changed, alone, guard, env: column }: Session): EndpointRepository {
  const read = ({ container, ...row }: Tables["endpoints"]): Endpoint => ({
    ...row,
    env: column.read("endpoints", row.id, row.env),
    ...(container === "" ? {} : { container: JSON.parse(container) as EndpointContainer }),
  });
  const all = () => db.selectFrom("endpoints").selectAll().orderBy("name").orderBy("id");
  return {
    async find(id) {
      const row = await db.selectFrom("endpoints").selectAll().where("id", "=", id).executeTakeFirst();
      return row && read(row);
    },
    async list() {
      return (await all().execute()).map(read);
    },
    listBriefly: () => db.selectFrom("endpoints").select(BRIEF_FIELDS).execute(),
    async listRemoved() {
      return (await all().where("environmentId", "is not", null).where("buildId", "is", null).execute()).map(read);
    },
    async listScheduled() {
      return (await all().where("schedule", ">", "").execute()).map(read);
    },
    async listByEnvironment(environmentId) {
      return (await all().where("environmentId", "=", environmentId).execute()).map(read);
    },
    async insert(endpoint) {
      await guard(
        `An endpoint named "${endpoint.name}" exists already in this environment, or the environment is gone.`,
        db
          .insertInto("endpoints")
          .values({
            ...endpoint,
            env: column.write("endpoints", endpoint.id, endpoint.env),
            container: containerText(endpoint.container),
          })
          .execute(),
      );
      await changed({ table: "endpoints", id: endpoint.id, endpoint });
    },
    async update(id, changes) {
      const { env, container, ...rest } = changes;
      const set = {
        ...rest,
        ...(env !== undefined && { env: column.write("endpoints", id, env) }),
        ...("container" in changes && { container: containerText(container) }),
      };
      const query = db.updateTable("endpoints").where("id", "=", id);
      // SQL has no empty SET; setting the id to itself still tells whether the row is there.
      const row = await guard(
        "Another endpoint of this environment has that name.",
        query
          .set(Object.keys(set).length > 0 ? set : { id })
          .returningAll()
          .executeTakeFirst(),
      );
      if (row === undefined) return false;
      await changed({ table: "endpoints", id, endpoint: read(row) });
      return true;
    },
    async delete(id) {
      const workers = await alone(async (trx) => {
        const gone = await trx.deleteFrom("workers").where("endpointId", "=", id).returning("id").execute();
        await trx.deleteFrom("endpoints").where("id", "=", id).execute();
        return gone;
      });
      const ofWorkers = workers.map((worker) => ({ table: "workers", id: worker.id }) as const);
      await changed(...ofWorkers, { table: "endpoints", id, endpoint: undefined });
    },
  };
}

function containerText(container: EndpointContainer | undefined): string {
  return container === undefined ? "" : JSON.stringify(container);
}

export function workerRepository({ db, changed, guard }: Session): WorkerRepository {
  const all = () => db.selectFrom("workers").selectAll().orderBy("createdAt").orderBy("id");
  return {
    find: (id) => db.selectFrom("workers").selectAll().where("id", "=", id).executeTakeFirst(),
    findByToken: (tokenHash) =>
      db.selectFrom("workers").selectAll().where("tokenHash", "=", tokenHash).executeTakeFirst(),
    list: () => all().execute(),
    listByEndpoint: (endpointId) => all().where("endpointId", "=", endpointId).execute(),
    async insert(worker) {
      await guard(
        "The worker exists already, or its endpoint is gone.",
        db.insertInto("workers").values(worker).execute(),
      );
      await changed({ table: "workers", id: worker.id });
    },
    async update(id, changes) {
      const query = db.updateTable("workers").where("id", "=", id);
      const { numUpdatedRows } = await query.set(Object.keys(changes).length > 0 ? changes : { id }).executeTakeFirst();
      if (numUpdatedRows === 0n) return false;
      await changed({ table: "workers", id });
      return true;
    },
    async delete(id) {
      await db.deleteFrom("workers").where("id", "=", id).execute();
      await changed({ table: "workers", id });
    },
  };
}
