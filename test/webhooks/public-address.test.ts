import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isPublicAddress } from "../../src/webhooks/public-address.ts";

const PRIVATE = [
  ["this network", "0.0.0.0"],
  ["private A", "10.1.2.3"],
  ["carrier-grade NAT", "100.64.0.1"],
  ["loopback", "127.0.0.1"],
  ["loopback beyond .1", "127.255.255.254"],
  ["link-local", "169.254.0.1"],
  ["cloud metadata", "169.254.169.254"],
  ["private B", "172.16.0.1"],
  ["end of private B", "172.31.255.255"],
  ["private C", "192.168.1.1"],
  ["benchmarks", "198.19.0.1"],
  ["multicast", "224.0.0.1"],
  ["broadcast", "255.255.255.255"],
  ["IPv6 any", "::"],
  ["IPv6 loopback", "::1"],
  ["loopback inside IPv6", "::ffff:127.0.0.1"],
  ["loopback inside IPv6, in hexadecimal", "::ffff:7f00:1"],
  ["metadata inside IPv6", "::ffff:a9fe:a9fe"],
  ["old IPv4-compatible", "::10.0.0.1"],
  ["NAT64 of a private address", "64:ff9b::a00:1"],
  ["6to4 of a private address", "2002:a00:1::1"],
  ["Teredo", "2001:0:4136:e378:8000:63bf:3fff:fdd2"],
  ["IPv6 link-local", "fe80::1"],
  ["IPv6 link-local with zone", "fe80::1%eth0"],
  ["IPv6 unique local", "fd00:ec2::254"],
  ["IPv6 multicast", "ff02::1"],
  ["documentation", "2001:db8::1"],
  ["no address", "example.com"],
] as const;

for (const [title, address] of PRIVATE) {
  test(`a webhook does not reach ${title}: ${address}`, () => assert.equal(isPublicAddress(address), false));
}

for (const address of ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450::1"]) {
  test(`a webhook may reach ${address}`, () => assert.equal(isPublicAddress(address), true));
}

test("no IPv4 address becomes public by being written as an IPv6 one", () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => !isPublicAddress(`::ffff:${address}`) && !isPublicAddress(`::${address}`)),
  );
});
