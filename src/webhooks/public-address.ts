/** Which addresses of the internet a webhook may reach. What is not known to be public is private. */
import { BlockList, isIPv4, isIPv6 } from "node:net";

/** IANA's special-purpose registry: this network, private, shared, loopback, link-local (cloud metadata), test nets, multicast, reserved. */
const NOT_PUBLIC_V4: readonly [string, number][] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
];

/** All of IPv6 that is routed lies in 2000::/3; inside it: Teredo and other protocols, documentation, and 6to4, which wraps any IPv4. */
const GLOBAL_V6: readonly [string, number][] = [["2000::", 3]];
const NOT_PUBLIC_V6: readonly [string, number][] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
];

const notPublicV4 = blockList("ipv4", NOT_PUBLIC_V4);
const globalV6 = blockList("ipv6", GLOBAL_V6);
const notPublicV6 = blockList("ipv6", NOT_PUBLIC_V6);

/** An IPv4 address inside an IPv6 one (::ffff:127.0.0.1, 64:ff9b::127.0.0.1) is outside of 2000::/3, so it is not public. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !notPublicV4.check(address, "ipv4");
  if (!isIPv6(address) || address.includes("%")) return false;
  return globalV6.check(address, "ipv6") && !notPublicV6.check(address, "ipv6");
}

function blockList(family: "ipv4" | "ipv6", subnets: readonly [string, number][]): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of subnets) list.addSubnet(network, prefix, family);
  return list;
}
