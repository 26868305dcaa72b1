/** Where schedules are. A tick and its job are one batch, so no crash comes between them. */
import type { ScheduleBook, ScheduleState } from "../queue.ts";
import { insertJob } from "./changes.ts";
import type { Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { shardOf } from "./ownership.ts";

type ScheduleRow = Omit<ScheduleState, "paused"> & { readonly paused: number };

export function queueTicks(core: PostgresCore): ScheduleBook {
  async function read(query: Query, endpointId: string): Promise<ScheduleState | undefined> {
    const [row] = await query<ScheduleRow>(
      `SELECT spec, until, paused, tick, job AS "jobId" FROM job_schedules WHERE endpoint = $1`,
      [endpointId],
    );
    return row && { ...row, paused: row.paused === 1 };
  }

  /** As work of this batch has left it. */
  function now(endpointId: string, stored: ScheduleState | undefined): ScheduleState | undefined {
    const changed = core.unit.schedules.get(endpointId);
    return changed === undefined ? stored : (changed ?? undefined);
  }

  return {
    scheduleOf: (endpointId) => read((text, values) => core.db.read(text, values), endpointId),

    setSchedule: (endpointId, changes) =>
      core.ask(
        (stored: ScheduleState | undefined) => {
          core.check(endpointId);
          core.unit.shards.add(shardOf(endpointId));
          const { tick = null, jobId = "" } = now(endpointId, stored) ?? {};
          core.unit.schedules.set(endpointId, { ...changes, tick, jobId });
        },
        { load: (query) => read(query, endpointId) },
      ),

    tick: (endpointId, tick, until, job) =>
      core.ask(
        (stored: ScheduleState | undefined) => {
          core.check(endpointId);
          const state = now(endpointId, stored);
          if (state === undefined || state.paused || state.until >= tick) return false;
          core.unit.shards.add(shardOf(endpointId));
          const jobId = job === undefined ? "" : insertJob(core, job, job.input, undefined).id;
          core.unit.schedules.set(endpointId, { ...state, until, tick, jobId });
          return true;
        },
        { load: (query) => read(query, endpointId) },
      ),
  };
}
