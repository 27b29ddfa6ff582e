/**
 * Clients by the addresses of their sockets.
 *
 * @module
 */
import { isIPv6 } from "node:net";

/** Groups of an IPv6 address that a network is given whole: the others its hosts choose. */
const NETWORK_GROUPS = 4;
/** In front of an IPv4 address on a socket of both kinds. */
const MAPPED = "::ffff:";

/**
 * What all addresses of one client have in common: an IPv4 address, the network of an IPv6 one.
 *
 * @param address Undefined where the connection has been closed.
 */
export function clientOfAddress(address: string | undefined): string | undefined {
  if (address === undefined) return undefined;
  const plain = address.toLowerCase().split("%")[0]!;
  if (plain.startsWith(MAPPED) && plain.includes(".")) return plain.slice(MAPPED.length);
  if (!isIPv6(plain)) return plain;
  const [front = "", back] = plain.split("::");
  const first = front === "" ? [] : front.split(":");
  const last = back === undefined || back === "" ? [] : back.split(":");
  const zeros = back === undefined ? 0 : Math.max(8 - first.length - last.length, 0);
  const groups = [...first, ...new Array<string>(zeros).fill("0"), ...last];
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => group.replace(/^0+(?=.)/, ""));
  return `${network.join(":")}::/64`;
}
