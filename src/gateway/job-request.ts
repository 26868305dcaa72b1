/**
 * The body of /run and /runsync. It is parsed to check it, without long texts in `input`; the bytes of that go on as they came.
 *
 *   { "input": {…}, "method"?: text, "webhook"?: URL,
 *     "policy"?: { "executionTimeout"?: ms, "ttl"?: ms, "lowPriority"?: bool } }      other keys pass
 */
import { isUtf8 } from "node:buffer";
import { SvcError } from "../domain/errors.ts";
import {
  EXECUTION_TIMEOUT_MAX_MS,
  EXECUTION_TIMEOUT_MIN_MS,
  JOB_TTL_DEFAULT_MS,
  JOB_TTL_MAX_MS,
  JOB_TTL_MIN_MS,
  METHOD_MAX_CHARS,
  WEBHOOK_MAX_CHARS,
} from "../domain/limits.ts";
import { type Span, topLevelSpan } from "../lib/json-span.ts";
import { withoutTexts } from "../lib/json-texts.ts";
import { firstJsonError } from "./json-error.ts";

export interface JobRequest {
  /** A part of the body's bytes. */
  readonly input: Buffer;
  readonly method: string;
  readonly webhook: string;
  readonly lowPriority: boolean;
  /** Undefined: the endpoint's own. */
  readonly executionTimeoutMs: number | undefined;
  readonly ttlMs: number;
}

/** Throws BAD_INPUT with every problem at once. */
export function parseJobRequest(raw: Buffer): JobRequest {
  const body = withoutMark(raw);
  const longTexts: Span[] = [];
  const span = topLevelSpan(body, "input", longTexts);
  const inInput = longTexts.filter(({ start, end }) => span !== undefined && start >= span.start && end <= span.end);
  const { input, method, webhook, policy } = parseObject(body, '{"input":{"name":"Ada"}}', inInput);
  const problems: string[] = [];
  if (!isObject(input)) problems.push(inputProblem(input));
  if (!isAbsent(method) && typeof method !== "string") problems.push(`"method" must be a text, not ${kindOf(method)}.`);
  else if (typeof method === "string" && method.length > METHOD_MAX_CHARS) {
    problems.push(`"method" has ${method.length} characters; at most ${METHOD_MAX_CHARS} are allowed.`);
  }
  const webhookFault = webhookProblem(webhook);
  if (webhookFault !== undefined) problems.push(webhookFault);
  const rules = policyOf(policy, problems);
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join(" "));

  return {
    input: body.subarray(span!.start, span!.end),
    method: typeof method === "string" ? method : "",
    webhook: typeof webhook === "string" ? webhook : "",
    lowPriority: rules.lowPriority,
    executionTimeoutMs: rules.executionTimeoutMs,
    ttlMs: rules.ttlMs,
  };
}

const OPENAI_EXAMPLE = '{"model":"m","messages":[{"role":"user","content":"Hello"}]}';
const NO_BODY = Buffer.from("{}");

/** The body of an OpenAI call: what the function gets is `{"openai_route": route, "openai_input": body}`. Throws BAD_INPUT. */
export function parseOpenAiRequest(
  raw: Buffer,
  route: string,
  hasBody: boolean,
): JobRequest & { readonly streams: boolean } {
  const body = hasBody ? withoutMark(raw) : NO_BODY;
  const longTexts: Span[] = [];
  topLevelSpan(body, "stream", longTexts);
  const { stream } = parseObject(body, OPENAI_EXAMPLE, longTexts);
  const input = Buffer.concat([Buffer.from(`{"openai_route":"${route}","openai_input":`), body, Buffer.from("}")]);
  const rules = { lowPriority: false, executionTimeoutMs: undefined, ttlMs: JOB_TTL_DEFAULT_MS };
  return { input, method: "", webhook: "", ...rules, streams: stream === true };
}

type JsonObject = Readonly<Record<string, unknown>>;

/** `example`: what could be sent; `unread`: texts that nobody wants to know. Throws BAD_INPUT. */
function parseObject(body: Buffer, example: string, unread: readonly Span[]): JsonObject {
  if (!isUtf8(body)) throw new SvcError("BAD_INPUT", "The body is not UTF-8 text.", { help: "Send JSON in UTF-8." });
  let value: unknown;
  try {
    value = JSON.parse(withoutTexts(body, unread));
  } catch {
    throw notJson(body.toString("utf8"), example);
  }
  if (isObject(value)) return value;
  throw new SvcError("BAD_INPUT", `The body must be an object like ${example}, not ${kindOf(value)}.`);
}

function notJson(text: string, example: string): SvcError {
  const help = `Send an object like ${example}.`;
  if (text.trim() === "") return new SvcError("BAD_INPUT", "The body is empty.", { help });
  const error = firstJsonError(text);
  const where = error === undefined ? "" : ` at line ${error.line}, column ${error.column}: expected ${error.expected}`;
  return new SvcError("BAD_INPUT", `The body is not valid JSON${where}.`, { help });
}

function inputProblem(input: unknown): string {
  const fault = input === undefined ? '"input" is missing.' : `"input" must be an object, not ${kindOf(input)}.`;
  return `${fault} It holds the function's arguments by name, like {"input":{"name":"Ada"}}.`;
}

function webhookProblem(webhook: unknown): string | undefined {
  if (isAbsent(webhook) || webhook === "") return undefined;
  if (typeof webhook !== "string") return `"webhook" must be a URL, not ${kindOf(webhook)}.`;
  if (webhook.length > WEBHOOK_MAX_CHARS) return `"webhook" must have at most ${WEBHOOK_MAX_CHARS} characters.`;
  const url = URL.parse(webhook);
  if (url !== null && (url.protocol === "https:" || url.protocol === "http:")) return undefined;
  return '"webhook" must be an http or https URL.';
}

function policyOf(policy: unknown, problems: string[]) {
  const given = isObject(policy) ? policy : {};
  if (!isAbsent(policy) && !isObject(policy)) problems.push(`"policy" must be an object, not ${kindOf(policy)}.`);
  const milliseconds = (name: string, min: number, max: number): number | undefined => {
    const value = given[name];
    if (isAbsent(value)) return undefined;
    if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
    problems.push(`"policy.${name}" must be a whole number of milliseconds from ${min} to ${max}.`);
    return undefined;
  };
  const { lowPriority } = given;
  if (!isAbsent(lowPriority) && typeof lowPriority !== "boolean") {
    problems.push(`"policy.lowPriority" must be true or false, not ${kindOf(lowPriority)}.`);
  }
  return {
    executionTimeoutMs: milliseconds("executionTimeout", EXECUTION_TIMEOUT_MIN_MS, EXECUTION_TIMEOUT_MAX_MS),
    ttlMs: milliseconds("ttl", JOB_TTL_MIN_MS, JOB_TTL_MAX_MS) ?? JOB_TTL_DEFAULT_MS,
    lowPriority: lowPriority === true,
  };
}

/** Clients send null for what they do not set. */
function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "string") return "a text";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}

/** Some editors put a byte order mark before the text. */
function withoutMark(body: Buffer): Buffer {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;
}
