/**
 * Who calls: whom a count is kept for, and what a function is told. Behind a proxy every caller has the proxy's address, and one that
 * guesses would lock out all: proxies that are named as trusted are asked for the caller's (X-Forwarded-For), nobody else is believed.
 */
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

type Asked = Pick<IncomingMessage, "headers"> & { readonly socket: { readonly remoteAddress?: string | undefined } };

export class ClientAddress {
  readonly #trusted = new BlockList();
  readonly #trustsAny: boolean;

  /** Addresses and networks: "10.0.0.1", "10.0.0.0/8", "fd00::/8". */
  constructor(trusted: readonly string[]) {
    this.#trustsAny = trusted.length > 0;
    for (const text of trusted) {
      const [network = "", prefix] = text.split("/");
      const family = isIP(network) === 6 ? "ipv6" : "ipv4";
      if (prefix === undefined) this.#trusted.addAddress(network, family);
      else this.#trusted.addSubnet(network, Number(prefix), family);
    }
  }

  /** "" for a caller that has none, as on a Unix socket. */
  of(req: Asked): string {
    return this.#nearestStranger(req).address;
  }

  /** X-Forwarded-For as it goes on to a function: the caller is the last; what it said itself stands before. */
  chain(req: Asked): string {
    const { address, said } = this.#nearestStranger(req);
    return said === "" || address === "" ? address : `${said}, ${address}`;
  }

  #nearestStranger({ socket, headers }: Asked): { address: string; said: string } {
    let address = plain(socket.remoteAddress ?? "");
    let said = String(headers["x-forwarded-for"] ?? "");
    // From the nearest on: what stands before the first stranger was written by that stranger.
    while (this.#trustsAny && this.#isTrusted(address)) {
      const comma = said.lastIndexOf(",");
      const before = plain(said.slice(comma + 1).trim());
      if (isIP(before) === 0) break;
      address = before;
      said = said.slice(0, Math.max(0, comma)).trimEnd();
    }
    return { address, said };
  }

  #isTrusted(address: string): boolean {
    const family = isIP(address);
    return family !== 0 && this.#trusted.check(address, family === 6 ? "ipv6" : "ipv4");
  }
}

function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}
