import { parsed } from "./answer-error.ts";

/** A load-balanced endpoint answered with another status than 2xx. */
export class RequestError extends Error {
  readonly status: number;
  /** Code of the platform's own errors (docs/reference/errors.md); undefined for what the route itself answered. */
  readonly code: string | undefined;
  /** The answer's JSON, or its text. */
  readonly body: unknown;

  constructor(status: number, text: string) {
    const json = parsed<{ code?: unknown; detail?: unknown; error?: unknown }>(text);
    const code = typeof json?.code === "string" ? json.code : undefined;
    const words = [json?.detail, json?.error, text].find((one) => typeof one === "string" && one !== "");
    super(`The endpoint answered ${status}${words === undefined ? "" : `: ${String(words).slice(0, 500)}`}`);
    this.name = "RequestError";
    this.status = status;
    this.code = code;
    this.body = json ?? text;
  }

  static async of(response: Response): Promise<RequestError> {
    return new RequestError(response.status, await response.text());
  }
}
