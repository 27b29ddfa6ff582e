/**
 * Which addresses are on the internet: not this machine's, not those of networks around it.
 *
 * Source: IANA's registries of special-purpose addresses for IPv4 and IPv6.
 *
 * @module
 */
import { BlockList, isIP } from "node:net";
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";

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

type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>;

/**
 * False too for what is no address.
 *
 * @param interfaces This machine's, whose own addresses may be public ones.
 */
export function isPublicAddress(
  address: string,
  interfaces: Interfaces = networkInterfaces(),
): boolean {
  const version = isIP(address);
  if (version === 0) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  if (special.check(address, family) || (version === 6 && !given.check(address, family))) {
    return false;
  }
  const own = new BlockList();
  for (const one of Object.values(interfaces).flatMap((list) => list ?? [])) {
    own.addAddress(one.address.split("%", 1)[0]!, one.family === "IPv4" ? "ipv4" : "ipv6");
  }
  return !own.check(address, family);
}
