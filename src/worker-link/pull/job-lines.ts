/** Lines that a pulling worker prints as JSON with the job that they are about: `{"requestId": id, "message": text, "level": word}`. */

export interface LogPart {
  /** "" for what belongs to no job. */
  readonly jobId?: string;
  /** Lines, without the end of the last. */
  readonly text: string;
}

type Part = Required<LogPart>;

const JOB_ID = /^[\w-]{1,80}$/;

/** Whole lines, in runs of the same job. Any other line stays as it is. */
export function jobLines(text: string): Part[] {
  const runs: { jobId: string; lines: string[] }[] = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const { jobId, text: said } = jobLine(line);
    const last = runs.at(-1);
    if (last?.jobId === jobId) last.lines.push(said);
    else runs.push({ jobId, lines: [said] });
  }
  return runs.map(({ jobId, lines }) => ({ jobId, text: lines.join("\n") }));
}

function jobLine(line: string): Part {
  if (!line.startsWith('{"requestId"')) return { jobId: "", text: line };
  try {
    const { requestId, message, level } = JSON.parse(line) as Record<string, unknown>;
    if (typeof message !== "string") return { jobId: "", text: line };
    const jobId = typeof requestId === "string" && JOB_ID.test(requestId) ? requestId : "";
    return { jobId, text: typeof level === "string" ? `${level} ${message}` : message };
  } catch {
    return { jobId: "", text: line };
  }
}
