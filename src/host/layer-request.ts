/** One request for a layer, or a range of it. Nothing that the answer says is believed: not its length, and no other address. */
import { SvcError } from "../domain/errors.ts";
import type { LayerTicket } from "../domain/host-protocol.ts";

export interface Range {
  readonly from: number;
  /** The last byte. */
  readonly to: number;
}

/** Another try may go better. */
export class Interrupted extends Error {}

/** No other try would, but what has arrived stays for the next time. */
export class Refused extends Error {
  override readonly cause: SvcError;

  constructor(cause: SvcError) {
    super(cause.message);
    this.cause = cause;
  }
}

export interface LayerSource {
  /** In words: "The platform". */
  readonly who: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The answer has to begin by then. */
  readonly beginsMs?: number;
}

/** Exactly the bytes that were asked for. Throws SvcError and Refused where another try would end the same. */
export async function requestLayer(
  { who, url, headers, beginsMs }: LayerSource,
  ticket: LayerTicket,
  range: Range | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const late = new AbortController();
  const timer =
    beginsMs && setTimeout(() => late.abort(new Interrupted(`no answer in ${beginsMs / 1000} s`)), beginsMs);
  const ranged = range && { Range: `bytes=${range.from}-${range.to}` };
  const answer = await fetch(url, {
    headers: { ...headers, "Accept-Encoding": "identity", ...ranged },
    redirect: "manual",
    signal: AbortSignal.any([signal, late.signal]),
  }).finally(() => clearTimeout(timer));
  try {
    checkStatus(answer, who, ticket, range);
    return await bodyOf(answer, who, ticket, range === undefined ? ticket.bytes : range.to - range.from + 1);
  } finally {
    // A body that was not read to its end is not to come any more.
    if (!answer.bodyUsed) await answer.body?.cancel().catch(() => {});
  }
}

function checkStatus(answer: Response, who: string, { digest, bytes }: LayerTicket, range: Range | undefined): void {
  const { status } = answer;
  const fail = (code: "LAYER_MISSING" | "LAYER_CORRUPT" | "FORBIDDEN", words: string) => {
    const error = new SvcError(code, `${who} ${words} (layer ${digest}).`);
    throw code === "LAYER_CORRUPT" ? error : new Refused(error);
  };
  if (status === 404 || status === 409) fail("LAYER_MISSING", "does not have a layer of this build any more");
  if (status === 401 || status === 403) fail("FORBIDDEN", "refused this host's ticket for a layer");
  if (status === 416) fail("LAYER_CORRUPT", `says that a layer is shorter than the ${bytes} bytes it has to be`);
  if (status >= 300 && status < 400) {
    fail(
      "LAYER_CORRUPT",
      "sent this host elsewhere for a layer: its URL has to be the platform's own, without redirects",
    );
  }
  if (status === 200 && range === undefined) return;
  if (status === 206 && range !== undefined) {
    const expected = `bytes ${range.from}-${range.to}/${bytes}`;
    const said = answer.headers.get("content-range");
    if (said !== expected) fail("LAYER_CORRUPT", `answered a request for ${expected} with ${said ?? "no range"}`);
    return;
  }
  if (status === 200) fail("LAYER_CORRUPT", "or a proxy before it ignores ranges of a layer");
  throw new Interrupted(`HTTP status ${status}`);
}

/** Exactly `bytes` of it. What goes on beyond that is not read. */
async function bodyOf(answer: Response, who: string, { digest }: LayerTicket, bytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.length;
    if (size > bytes) {
      throw new SvcError("LAYER_CORRUPT", `${who} sent more than the ${bytes} bytes asked for (layer ${digest}).`);
    }
    parts.push(Buffer.from(chunk));
  }
  if (size < bytes) throw new Interrupted(`only ${size} of ${bytes} bytes came`);
  return Buffer.concat(parts, size);
}
