/**
 * Requests to the endpoints of examples/text-analysis that must be answered alike wherever workers run: as processes, in
 * containers, in a preview. `answers` leaves out what differs from call to call: ids, times, addresses.
 */
import path from "node:path";

export const CORPUS_PROJECT = path.resolve(import.meta.dirname, "../../examples/text-analysis");

/** Sends a request to an endpoint; `path` begins behind the endpoint's base URL. */
export type Ask = (
  endpoint: "text_api" | "sentiment" | "vocabulary",
  path: string,
  options: { method: string; body?: string; headers?: Record<string, string> },
) => Promise<{ readonly status: number; readonly headers: Headers; readonly text: string }>;

interface CorpusRequest {
  readonly endpoint: Parameters<Ask>[0];
  readonly method: string;
  readonly path: string;
  /** Text is sent as it is. */
  readonly body?: unknown;
}

const TEXT = "The best day! It is not bad… Ünïcödé — 日本語. Why? The day, the DAY.";
const api = (method: string, route: string, body?: unknown): CorpusRequest => ({
  endpoint: "text_api",
  method,
  path: route,
  body,
});
const sentiment = (body: unknown): CorpusRequest => ({
  endpoint: "sentiment",
  method: "POST",
  path: "/sentiment",
  body,
});
const vocabulary = (body: unknown): CorpusRequest => ({
  endpoint: "vocabulary",
  method: "POST",
  path: "/runsync",
  body,
});

const CORPUS: readonly CorpusRequest[] = [
  api("GET", "/health"),
  api("GET", "/info"),
  api("POST", "/analyze", { text: TEXT }),
  api("POST", "/analyze", { text: "" }),
  api("POST", "/analyze", { text: "x".repeat(200_000) }),
  api("POST", "/analyze", { text: 5 }),
  api("POST", "/analyze", {}),
  api("POST", "/analyze", { text: "a", more: 1 }),
  api("POST", "/analyze", "not JSON"),
  api("GET", "/analyze"),
  api("GET", "/nothing"),
  sentiment({ text: "I love this wonderful day" }),
  sentiment({ text: "not good, terrible and slow" }),
  sentiment({ text: "a table" }),
  sentiment({ words: "wrong name" }),
  vocabulary({ input: { text: TEXT } }),
  vocabulary({ input: { text: TEXT, top: 2 } }),
  vocabulary({ input: {} }),
  vocabulary({ input: { text: 5 } }),
  vocabulary({ input: { text: TEXT, unknown: true } }),
  vocabulary({ input: [TEXT] }),
  vocabulary({}),
  vocabulary("not JSON"),
];

/** What each request of the corpus is answered, by its number and line. */
export async function answers(ask: Ask): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const [number, { endpoint, method, path: route, body }] of CORPUS.entries()) {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    const answer = await ask(endpoint, route, { method, body: text, headers: { "content-type": "application/json" } });
    const title = `${number + 1} ${endpoint} ${method} ${route} ${(text ?? "").slice(0, 60)}`;
    found[title] = {
      status: answer.status,
      type: answer.headers.get("content-type"),
      body: withoutChance(parsed(answer.text)),
    };
  }
  return found;
}

const CHANCE = new Set(["id", "workerId", "delayTime", "executionTime", "hostname", "worker_id", "error_traceback"]);

/** Without ids and times, also inside the JSON text of a job's error. */
function withoutChance(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutChance);
  if (typeof value === "string" && value.startsWith('{"error_type"')) return withoutChance(parsed(value));
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => !CHANCE.has(key));
  return Object.fromEntries(kept.map(([key, inner]) => [key, withoutChance(inner)]));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
