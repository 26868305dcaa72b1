/** Series and records as management sees them where several platforms share the endpoints: each has a part in its own file. */
import type { ControlPlaneDeps } from "../control-plane/context.ts";
import { SvcError } from "../domain/errors.ts";
import type { HomePage, PageOfHome } from "../gateway-link/managed.ts";
import type { ErrorGroup, Numbered } from "../history/record-store.ts";
import { seriesAnswer } from "../history/series-answer.ts";
import type { AskedPlatforms } from "./asked-platforms.ts";

type History = Pick<ControlPlaneDeps, "series" | "records">;

export function sharedHistory(asked: AskedPlatforms): History {
  return {
    series: {
      async read(question) {
        let parts = await asked.all((one) => one.series(question));
        const stepMs = Math.max(...parts.map((part) => part.stepMs));
        // One that was there for longer has longer steps of the same time.
        if (parts.some((part) => part.stepMs !== stepMs)) {
          parts = await asked.all((one) => one.series({ ...question, stepMs }));
        }
        return seriesAnswer(
          question,
          parts.filter((part) => part.stepMs === stepMs),
        );
      },
      async routeMetrics(endpointId) {
        const names = await asked.all((one) => one.routeMetrics(endpointId));
        return [...new Set(names.flat())].sort();
      },
    },
    records: {
      async requests(filter, first, before) {
        const pages = pagesBefore(before);
        return together(await asked.all((one) => one.requests(filter, first, pages)), first, pages);
      },
      async decisions(filter, first, before) {
        const pages = pagesBefore(before);
        return together(await asked.all((one) => one.pastDecisions(filter, first, pages)), first, pages);
      },
      async errorGroups(filter, first) {
        return groupsTogether((await asked.all((one) => one.errorGroups(filter, first))).flat()).slice(0, first);
      },
    },
  };
}

/** Newest first. Each row names the page that begins behind it: of each home the number of its last row that was shown. */
function together<R extends { readonly at: number }>(
  homes: readonly PageOfHome<R>[],
  first: number,
  before: HomePage,
): Numbered<R>[] {
  const left = homes.map(({ home, rows }) => ({ home, rows: [...rows] }));
  const shown = { ...before };
  const found: Numbered<R>[] = [];
  while (found.length < first) {
    // Rows of one home stay in their order, whatever its clock did.
    const newest = left.reduce<(typeof left)[number] | undefined>((best, one) => {
      const [row] = one.rows;
      return row !== undefined && (best === undefined || row.at > best.rows[0]!.at) ? one : best;
    }, undefined);
    if (newest === undefined) break;
    const row = newest.rows.shift()!;
    shown[newest.home] = row.n;
    found.push({ ...row, page: Buffer.from(JSON.stringify(shown)).toString("base64url") });
  }
  return found;
}

/** Throws BAD_INPUT. */
function pagesBefore(before: string | number | undefined): HomePage {
  if (before === undefined) return {};
  try {
    const pages: unknown = JSON.parse(Buffer.from(String(before), "base64url").toString());
    if (typeof pages === "object" && pages !== null && Object.values(pages).every(Number.isSafeInteger))
      return pages as HomePage;
  } catch {}
  throw new SvcError("BAD_INPUT", '"after" must be the "next" of an earlier page.');
}

/** Errors of one kind that happened at several. */
function groupsTogether(groups: readonly ErrorGroup[]): ErrorGroup[] {
  const kinds = new Map<string, ErrorGroup>();
  for (const group of groups) {
    const known = kinds.get(group.key);
    const [newer, older] = known !== undefined && known.lastAt > group.lastAt ? [known, group] : [group, known];
    const count = newer.count + (older?.count ?? 0);
    kinds.set(group.key, { ...newer, count, firstAt: Math.min(newer.firstAt, older?.firstAt ?? newer.firstAt) });
  }
  return [...kinds.values()].sort((a, b) => b.lastAt - a.lastAt);
}
