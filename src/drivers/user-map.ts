/** Numbers of users are those of a user namespace: a container without root has only some of them (`man 7 user_namespaces`). */
import { readFileSync } from "node:fs";
import { SvcError } from "../domain/errors.ts";

type Range = readonly [first: number, last: number];

/** Most such containers have 0 to 65535, of which these are neither people's nor systemd's. */
const OFTEN_FREE: Range = [50_000, 59_999];

/** Throws CONFIG_INVALID where some of these users, or groups, are nobody here. */
export function checkUsersAreThere(range: Range, maps: readonly string[] = mapsOfThisProcess()): void {
  const there = maps.map(rangesIn);
  const short = there.find((ranges) => !hold(ranges, range));
  if (short === undefined) return;
  throw new SvcError(
    "CONFIG_INVALID",
    `SVC_WORKER_UIDS: ${written(range)} are not all users here: this container has ${short.map(written).join(", ")}.`,
    {
      help: there.every((ranges) => hold(ranges, OFTEN_FREE))
        ? `Set SVC_WORKER_UIDS=${written(OFTEN_FREE)}, or other numbers of it that nobody else has.`
        : "Give the container more numbers of users, start the platform as another user than root, or set SVC_ISOLATION=none and accept less.",
    },
  );
}

/** Of users and of groups; none where the system has no such namespaces. */
function mapsOfThisProcess(): string[] {
  try {
    return ["uid_map", "gid_map"].map((name) => readFileSync(`/proc/self/${name}`, "utf8"));
  } catch {
    return [];
  }
}

/** Each line has the first number here, the first one outside, and how many there are; neighbours become one. */
function rangesIn(map: string): Range[] {
  const joined: [number, number][] = [];
  const lines = map.trim().split("\n");
  const numbers = lines.map((line) => line.trim().split(/\s+/).map(Number) as [number, number, number]);
  for (const [first, , count] of numbers.sort((a, b) => a[0] - b[0])) {
    const before = joined.at(-1);
    if (before?.[1] === first - 1) before[1] += count;
    else joined.push([first, first + count - 1]);
  }
  return joined;
}

function hold(ranges: readonly Range[], [first, last]: Range): boolean {
  return ranges.some((range) => range[0] <= first && last <= range[1]);
}

function written([first, last]: Range): string {
  return first === last ? `${first} alone` : `${first}-${last}`;
}
