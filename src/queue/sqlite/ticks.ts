/** Where schedules are. A tick and its job are one transaction, so no crash comes between them. */
import type { ScheduleBook, ScheduleState } from "../queue.ts";
import { insertJob } from "./changes.ts";
import type { QueueCore } from "./core.ts";

export function queueTicks(core: QueueCore): ScheduleBook {
  const { sql } = core;

  function stateOf(endpointId: string): ScheduleState | undefined {
    const row = sql.schedule.get(endpointId) as (Omit<ScheduleState, "paused"> & { paused: number }) | undefined;
    return row && { ...row, paused: row.paused === 1 };
  }

  return {
    scheduleOf: async (endpointId) => stateOf(endpointId),

    setSchedule: (endpointId, { spec, until, paused }) =>
      core.offer(() =>
        core.run(() => {
          sql.setSchedule.run(endpointId, spec, until, paused ? 1 : 0);
        }),
      ),

    tick: (endpointId, tick, until, job) =>
      core.offer(() =>
        core.run(() => {
          const state = stateOf(endpointId);
          if (state === undefined || state.paused || state.until >= tick) return false;
          const id = job === undefined ? "" : insertJob(core, job, job.input).id;
          sql.ticked.run(until, tick, id, endpointId);
          return true;
        }),
      ),
  };
}
