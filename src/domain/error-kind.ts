/** What failures have in common: what was raised and where. Lists of errors are grouped by it. */
import { createHash } from "node:crypto";
import { failureLine, failureOf } from "./job.ts";
import { ERROR_KIND_MAX_CHARS } from "./limits.ts";

export interface ErrorKind {
  /** Of one endpoint's errors of this type and place. */
  readonly key: string;
  /** As ValueError; of a plain text its beginning, with # for numbers. */
  readonly type: string;
  /** As main.py:12 in paint; "" when it is not known. */
  readonly place: string;
  /** First line of this one, which others of the kind need not share. */
  readonly message: string;
}

const FRAME = /File "([^"\n]+)", line (\d+)(?:, in ([^\n]+))?/g;
const KEY_CHARS = 16;

/** `error` as a job has it. */
export function errorKind(endpointId: string, error: string): ErrorKind {
  const failure = failureOf(error);
  if (failure === undefined) return kindOf(endpointId, textType(error), "", error);
  const { error_type: type, error_message: message, error_traceback: traceback } = failure;
  const [, file, line, name] = [...String(traceback ?? "").matchAll(FRAME)].at(-1) ?? [];
  const place = file === undefined ? "" : `${file}:${line}${name === undefined ? "" : ` in ${name}`}`;
  return kindOf(endpointId, String(type), place, failureLine(String(type), String(message)));
}

/** Of a request that failed: the place is its route. */
export function requestErrorKind(endpointId: string, status: number, route: string): ErrorKind {
  return kindOf(endpointId, `HTTP ${status}`, route, `${route} answered ${status}`);
}

function kindOf(endpointId: string, fullType: string, fullPlace: string, text: string): ErrorKind {
  const [type, place] = [short(fullType), short(fullPlace)];
  const key = createHash("sha256")
    .update(JSON.stringify([endpointId, type, place]))
    .digest("hex")
    .slice(0, KEY_CHARS);
  return { key, type, place, message: short(text.split("\n")[0] ?? "") };
}

/** "worker lost after 1 retry: exit code 137" and that of another exit code are one kind. */
function textType(text: string): string {
  const [start = ""] = text.split(/[:\n]/);
  return start.replace(/\d+/g, "#");
}

function short(text: string): string {
  return text.length > ERROR_KIND_MAX_CHARS ? `${text.slice(0, ERROR_KIND_MAX_CHARS - 1)}…` : text;
}
