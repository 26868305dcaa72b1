import type { IncomingMessage } from "node:http";
import { SvcError } from "../domain/errors.ts";

/** The URL of a request. Throws BAD_INPUT for what is none, as "*". */
export function requestUrl({ url = "/" }: IncomingMessage): URL {
  // Put behind a host of ours as it is: resolved against one, "//name" would be a host itself.
  const text = url.startsWith("/") ? `http://control-plane${url}` : url;
  if (/^https?:/i.test(text) && URL.canParse(text)) return new URL(text);
  throw new SvcError("BAD_INPUT", `${JSON.stringify(url.slice(0, 200))} is not a path.`);
}

/** A part of a path as it was meant. Throws BAD_INPUT. */
export function decodedPart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new SvcError("BAD_INPUT", `${JSON.stringify(text.slice(0, 200))} is not well encoded.`);
  }
}
