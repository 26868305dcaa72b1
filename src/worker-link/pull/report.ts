/** What a pulling worker says about a job, read from the bodies that it sends. The bytes of an output go on as they came. */
import { isUtf8 } from "node:buffer";
import { topLevelSpan } from "../../lib/json-span.ts";

export type Report =
  | { readonly kind: "progress"; readonly output: Uint8Array }
  | { readonly kind: "completed"; readonly output: Uint8Array; readonly stop: boolean }
  /** `raised`: the handler raised; else it returned the error. */
  | {
      readonly kind: "failed";
      readonly error: string;
      readonly output: Uint8Array | undefined;
      readonly raised: boolean;
      readonly stop: boolean;
    }
  | { readonly kind: "unreadable"; readonly why: string };

const NOTHING = Buffer.from("null");

/** Of a result: `{"output"}`, `{"error", "output"?}` or `{"status": "IN_PROGRESS", "output"}`, perhaps with `"stopPod": true`. */
export function readReport(body: Buffer): Report {
  const said = parse(body);
  if (typeof said === "string") return { kind: "unreadable", why: said };
  const output = outputOf(body);
  if (said.status === "IN_PROGRESS") return { kind: "progress", output: output ?? NOTHING };
  const stop = said.stopPod === true;
  const { error } = said;
  if (error === undefined || error === null || error === "") {
    return { kind: "completed", output: output ?? NOTHING, stop };
  }
  const text = typeof error === "string" ? error : JSON.stringify(error);
  return { kind: "failed", error: text, output, raised: isException(text), stop };
}

/** Of a chunk: `{"output"}`; why it cannot be read otherwise. */
export function readChunk(body: Buffer): Uint8Array | string {
  const said = parse(body);
  return typeof said === "string" ? said : (outputOf(body) ?? NOTHING);
}

function parse(body: Buffer): Readonly<Record<string, unknown>> | string {
  if (!isUtf8(body)) return "it is not UTF-8 text";
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    return "it is not an object";
  } catch (error) {
    return `it is not JSON: ${(error as Error).message}`;
  }
}

function outputOf(body: Buffer): Uint8Array | undefined {
  const span = topLevelSpan(body, "output");
  return span && body.subarray(span.start, span.end);
}

function isException(error: string): boolean {
  if (!error.startsWith("{")) return false;
  try {
    return typeof (JSON.parse(error) as { error_type?: unknown }).error_type === "string";
  } catch {
    return false;
  }
}
