/**
 * What callers saw of each job, and whether the promises held. Every operation names one job, so each job's history is judged
 * by itself: accepted → (any states) → one final state with one result, which stays while it is kept.
 */
export interface Seen {
  readonly atMs: number;
  /** "GONE" is a 404. */
  readonly state: string;
  /** As JSON; "" while there is none. */
  readonly result: string;
}

export interface JobHistory {
  readonly name: string;
  /** Whether each request about it was answered, or refused, in its time. */
  readonly unanswered: number;
  /** Answers that the platform must never give: a 500, or what is no answer of a job. */
  readonly wrong: readonly string[];
  /** Undefined: it was never accepted. */
  readonly acceptedAtMs: number | undefined;
  /** A final job may be gone after this time. */
  readonly keptUntilMs: number;
  /** In the order of their times. */
  readonly seen: readonly Seen[];
}

export interface Verdict {
  readonly accepted: number;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly stuck: readonly string[];
  readonly unanswered: readonly string[];
  readonly wrong: readonly string[];
}

const FINAL = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"]);

export function isFinal(state: string): boolean {
  return FINAL.has(state);
}

export function judge(histories: readonly JobHistory[]): Verdict {
  const verdict = { accepted: 0, lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] } as {
    accepted: number;
  } & Record<"lost" | "doubled" | "stuck" | "unanswered" | "wrong", string[]>;
  for (const history of histories) {
    const { name, seen, acceptedAtMs } = history;
    if (history.unanswered > 0) verdict.unanswered.push(`${name}: ${history.unanswered} requests`);
    verdict.wrong.push(...history.wrong.map((what) => `${name}: ${what}`));
    if (acceptedAtMs === undefined) continue;
    verdict.accepted++;
    const gone = seen.find(({ state, atMs }) => state === "GONE" && atMs < history.keptUntilMs);
    const finals = seen.filter(({ state }) => isFinal(state));
    if (gone !== undefined) verdict.lost.push(`${name}: gone at ${gone.atMs} ms`);
    else if (finals.length === 0 && seen.at(-1)?.state !== "GONE")
      verdict.stuck.push(`${name}: ${seen.at(-1)?.state ?? "never seen"}`);
    const changed = changeAfterFinal(seen);
    if (changed !== undefined) verdict.doubled.push(`${name}: ${changed}`);
  }
  return verdict;
}

function changeAfterFinal(seen: readonly Seen[]): string | undefined {
  const first = seen.find(({ state }) => isFinal(state));
  if (first === undefined) return undefined;
  const later = seen.slice(seen.indexOf(first) + 1);
  const other = later.find(
    ({ state, result }) => state !== "GONE" && (state !== first.state || result !== first.result),
  );
  return other && `${first.state} ${first.result}, later ${other.state} ${other.result}`;
}
