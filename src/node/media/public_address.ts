/**
 * Which addresses are on the internet: not this machine's, not those of networks around it.
 *
 * Source: IANA's registries of special-purpose addresses for IPv4 and IPv6.
 *
 * @module
 */
import { BlockList, isIP } from "node:net";

const SPECIAL_4: readonly (readonly [net: string, prefix: number])[] = [
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

/** Of those that are given out at all. */
const SPECIAL_6: readonly (readonly [net: string, prefix: number])[] = [
  // Among them Teredo's, which carry an IPv4 address.
  ["2001::", 23],
  ["2001:db8::", 32],
  // 6to4, which carries one too.
  ["2002::", 16],
  ["3fff::", 20],
];

const special = new BlockList();
for (const [net, prefix] of SPECIAL_4) special.addSubnet(net, prefix, "ipv4");
for (const [net, prefix] of SPECIAL_6) special.addSubnet(net, prefix, "ipv6");

/** Of IPv6 all that is given out, and so nothing that stands for an IPv4 address. */
const given = new BlockList();
given.addSubnet("2000::", 3, "ipv6");

/** False too for what is no address. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !special.check(address, "ipv4");
    case 6:
      return given.check(address, "ipv6") && !special.check(address, "ipv6");
    default:
      return false;
  }
}
