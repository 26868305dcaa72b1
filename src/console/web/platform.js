/** The way to the platform, and whether it answers: every request of the page goes through here. */
import { session } from "./session.js";

export class PlatformError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** "up", "away" (it will be asked again), or "ended": the session is over. */
let state = "up";
const listeners = new Set();

export function connection() {
  return state;
}

/** Calls `listener` with each new state until the returned function is called. */
export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function become(next) {
  if (state === next || state === "ended") return;
  state = next;
  for (const listener of [...listeners]) listener(next);
}

/**
 * The response of a request in this session; `anyStatus`: also one that is no success, as functions may give. Rejects with
 * PlatformError when the platform is away, or refuses it.
 */
export async function ask(path, { method = "GET", body, signal, type = "application/json", anyStatus = false } = {}) {
  let response;
  try {
    const headers = { "x-svc-page": session.token, ...(body !== undefined && { "content-type": type }) };
    response = await fetch(path, { method, body, headers, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    become("away");
    throw new PlatformError("AWAY", "The platform does not answer.");
  }
  if (response.ok || anyStatus) {
    become("up");
    return response;
  }
  const refusal = await response.json().catch(() => ({}));
  if (refusal.code === "MISSING_KEY" || refusal.code === "WRONG_KEY") become("ended");
  else become(response.status === 503 && refusal.code === "SHUTTING_DOWN" ? "away" : "up");
  throw new PlatformError(
    refusal.code,
    [refusal.detail ?? `HTTP ${response.status}`, refusal.help].filter(Boolean).join(" "),
  );
}

export async function askJson(path, options) {
  return (await ask(path, options)).json();
}

/** The data of a GraphQL document. */
export async function query(document, variables, signal) {
  const body = JSON.stringify({ query: document, variables });
  const { data, errors } = await askJson("/graphql", { method: "POST", body, signal });
  if (errors !== undefined)
    throw new PlatformError(errors[0].extensions?.code, errors.map(({ message }) => message).join(" "));
  return data;
}

/** Lines of an answer as they come. */
export async function* lines(path, signal) {
  const { body } = await ask(path, { signal });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}
