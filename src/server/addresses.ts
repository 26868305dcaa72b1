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

/** `http://host` or `https://host`, perhaps with a port and a path; without a slash at its end, as paths are put behind it. */
export const publicAddress = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url && [url.username, url.password, url.search, url.hash].every((part) => part === "");
  if (isPlain && /^https?:$/.test(url.protocol)) return url.origin + url.pathname.replace(/\/+$/, "");
  context.addIssue("is not an address such as https://svc.example.org");
  return z.NEVER;
});

/** Of a host, without a protocol, port or path. */
export const hostName = z
  .string()
  .regex(/^(?=.{1,253}$)[\w-]{1,63}(\.[\w-]{1,63})*$/, "is not the name of a host such as svc.example.org");
