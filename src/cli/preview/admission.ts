/**
 * Who may call a preview's ports. They ask for no key, so they answer nobody but programs of this machine and the
 * preview's own containers: not browser pages of other sites, and no name that was bent to this machine's address.
 */
import type { IncomingMessage } from "node:http";
import { BlockList, isIPv6 } from "node:net";
import { refusalOf } from "../../dev/guard.ts";
import { SvcError } from "../../domain/errors.ts";

export interface Admission {
  /** Name that callers use, beside those of this machine. */
  readonly host: string;
  /** Where callers may come from: an address with a prefix length; undefined: from wherever the port is reached. */
  readonly subnet: string | undefined;
  /** The endpoint's `cors` setting. */
  readonly cors: string;
}

/** Throws FORBIDDEN. */
export function admitCaller(req: IncomingMessage, { host, subnet, cors }: Admission): void {
  if (subnet !== undefined && !inSubnet(req.socket.remoteAddress ?? "", subnet)) {
    throw new SvcError("FORBIDDEN", "Only containers of this preview may call this address.");
  }
  const refusal = refusalOf({ method: req.method, url: req.url, headers: req.headers }, { host, cors });
  if (refusal === undefined) return;
  throw new SvcError("FORBIDDEN", refusal.message, {
    help: `Call it as ${host}, or name the page's origin in the endpoint's cors setting.`,
  });
}

function inSubnet(address: string, subnet: string): boolean {
  const [network = "", bits = ""] = subnet.split("/");
  const list = new BlockList();
  list.addSubnet(network, Number(bits), isIPv6(network) ? "ipv6" : "ipv4");
  const plain = address.replace(/^::ffff:/, "");
  return list.check(plain, isIPv6(plain) ? "ipv6" : "ipv4");
}
