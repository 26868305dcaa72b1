/**
 * Whom a count is kept for. Behind a proxy every caller has the proxy's address, and one that guesses would lock out all: proxies
 * that are named as trusted are asked for the caller's (X-Forwarded-For), nobody else is believed.
 */
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

export class ClientAddress {
  readonly #trusted = new BlockList();

  /** Addresses and networks: "10.0.0.1", "10.0.0.0/8", "fd00::/8". */
  constructor(trusted: readonly string[]) {
    for (const text of trusted) {
      const [network = "", prefix] = text.split("/");
      const family = isIP(network) === 6 ? "ipv6" : "ipv4";
      if (prefix === undefined) this.#trusted.addAddress(network, family);
      else this.#trusted.addSubnet(network, Number(prefix), family);
    }
  }

  of({ socket, headers }: Pick<IncomingMessage, "headers"> & { readonly socket: { remoteAddress?: string } }): string {
    let address = plain(socket.remoteAddress ?? "");
    const forwarded = String(headers["x-forwarded-for"] ?? "").split(",");
    // From the nearest on: what stands before the first stranger was written by that stranger.
    while (this.#isTrusted(address)) {
      const before = plain(forwarded.pop()?.trim() ?? "");
      if (isIP(before) === 0) break;
      address = before;
    }
    return address;
  }

  #isTrusted(address: string): boolean {
    const family = isIP(address);
    return family !== 0 && this.#trusted.check(address, family === 6 ? "ipv6" : "ipv4");
  }
}

function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}
