/**
 * Internet addresses as regular expressions, put together as their specifications do.
 *
 * @module
 */

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
export const IPV4 = `${OCTET}(?:\\.${OCTET}){3}`;

/** Eight groups, or fewer with one gap; the last two groups may be an IPv4 address. */
export const IPV6 = (() => {
  const group = "[0-9A-Fa-f]{1,4}";
  const last = `(?:${group}:${group}|${IPV4})`;
  const before = (most: number) => (most === 0 ? "" : `(?:(?:${group}:){0,${most - 1}}${group})?`);
  const options = [`(?:${group}:){6}${last}`];
  for (let behind = 5; behind >= 0; behind--) {
    options.push(`${before(5 - behind)}::(?:${group}:){${behind}}${last}`);
  }
  options.push(`${before(6)}::${group}`, `${before(7)}::`);
  return `(?:${options.join("|")})`;
})();

const HEX = "[0-9A-Fa-f]";
const PERCENT = `%${HEX}${HEX}`;
const UNRESERVED = "A-Za-z0-9._~\\-";
const SUB_DELIMITERS = "!$&'()*+,;=";
/** Characters of IRIs beyond ASCII (RFC 3987, section 2.2). */
const UCS_CHARACTERS =
  "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}" +
  Array.from({ length: 14 }, (_, i) => {
    const plane = (i + 1).toString(16);
    return `\\u{${plane}${i === 13 ? "1000" : "0000"}}-\\u{${plane}FFFD}`;
  }).join("");
const PRIVATE_CHARACTERS = "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";

interface Address {
  /** With a scheme. */
  readonly absolute: string;
  /** With a scheme or relative to another address. */
  readonly reference: string;
}

/** @param more Characters that are unreserved, and those that a query may have besides. */
function address(more: { readonly unreserved: string; readonly query: string }): Address {
  const unreserved = UNRESERVED + more.unreserved;
  const character = (others: string) => `(?:[${unreserved}${SUB_DELIMITERS}${others}]|${PERCENT})`;
  const future = `v${HEX}+\\.[${UNRESERVED}${SUB_DELIMITERS}:]+`;
  const host = `(?:\\[(?:${IPV6}|[Vv]${future.slice(1)})\\]|${character("")}*)`;
  const authority = `(?:${character(":")}*@)?${host}(?::\\d*)?`;
  const segment = `${character(":@")}*`;
  const solid = `${character(":@")}+`;
  const noColon = `${character("@")}+`;
  const path = `(?:\\/${segment})*`;
  const absolutePath = `\\/(?:${solid}${path})?`;
  const query = `(?:\\?(?:${character(":@/?" + more.query)})*)?`;
  const fragment = `(?:#(?:${character(":@/?")})*)?`;
  const withAuthority = `\\/\\/${authority}${path}`;
  const tail = `${query}${fragment}`;
  const absolute = `[A-Za-z][A-Za-z0-9+.\\-]*:(?:${withAuthority}|${absolutePath}|${solid}${path})?${tail}`;
  const relative = `(?:${withAuthority}|${absolutePath}|${noColon}${path})?${tail}`;
  return { absolute, reference: `(?:${absolute}|${relative})` };
}

const ASCII = address({ unreserved: "", query: "" });
const INTERNATIONAL = address({ unreserved: UCS_CHARACTERS, query: PRIVATE_CHARACTERS });

export const URI = ASCII.absolute;
export const URI_REFERENCE = ASCII.reference;
export const IRI = INTERNATIONAL.absolute;
export const IRI_REFERENCE = INTERNATIONAL.reference;

export const URI_TEMPLATE = (() => {
  const literal = `(?:[!#$&'(-;=?-\\[\\]_a-z~${UCS_CHARACTERS}${PRIVATE_CHARACTERS}]|${PERCENT})`;
  const character = `(?:[A-Za-z0-9_]|${PERCENT})`;
  const name = `${character}(?:\\.?${character})*`;
  const variable = `${name}(?::[1-9]\\d{0,3}|\\*)?`;
  const expression = `\\{[+#./;?&=,!@|]?${variable}(?:,${variable})*\\}`;
  return `(?:${literal}|${expression})*`;
})();
