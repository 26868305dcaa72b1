import type { IncomingMessage } from "node:http";
import { SvcError } from "../../domain/errors.ts";
import { DEVICE_BODY_MAX_BYTES } from "../../domain/limits.ts";

/** The fields of a small body: a form, or a JSON object of texts. Throws BAD_INPUT, TOO_LARGE. */
export async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > DEVICE_BODY_MAX_BYTES)
      throw new SvcError("TOO_LARGE", `The body has at most ${DEVICE_BODY_MAX_BYTES} bytes.`);
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString("utf8");
  if (!request.headers["content-type"]?.startsWith("application/json")) return new URLSearchParams(text);
  try {
    const fields = Object.entries(JSON.parse(text) as object).filter(([, value]) => typeof value === "string");
    return new URLSearchParams(fields as [string, string][]);
  } catch {
    throw new SvcError("BAD_INPUT", "The body is not a JSON object.");
  }
}
