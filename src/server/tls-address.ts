import { z } from "zod";

/** `tls://host:port`, the host perhaps an IPv6 address in brackets. */
export const tlsAddress = z.string().transform((text, context) => {
  const [, host = "", port] = /^tls:\/\/(\[[\da-fA-F:.]+\]|[\w.-]+):(\d{1,5})$/.exec(text) ?? [];
  if (host !== "" && Number(port) <= 65535) return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
  context.addIssue(`"${text}" is not tls://HOST:PORT`);
  return z.NEVER;
});

/** One that others dial. */
export const dialledAddress = tlsAddress.refine(({ port }) => port > 0, "has to name a port");
