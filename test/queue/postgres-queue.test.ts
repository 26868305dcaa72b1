import { after, test } from "node:test";
import { queueConformance } from "../conformance/queue.ts";
import { queueModel } from "../conformance/queue-model.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { openPostgresTestQueue } from "./open-postgres-queue.ts";

const found = await findPostgres();
if ("missing" in found) test("the job queue on PostgreSQL", { skip: found.missing }, () => {});
else {
  const server = await startPostgres(found.bin);
  after(() => server.stop());
  queueConformance("PostgreSQL", (clock) => openPostgresTestQueue(server, clock));
  queueModel("PostgreSQL", (clock) => openPostgresTestQueue(server, clock), 12);
}
