/**
 * The formats of strings, each enforced as its specification defines it.
 *
 * | format | specification |
 * |---|---|
 * | `date`, `time`, `date-time` | RFC 3339, section 5.6; days of month and leap years are right, second 60 only at 23:59 UTC and with an offset of whole quarters of an hour |
 * | `duration` | RFC 3339, appendix A |
 * | `email` | RFC 5321, `Mailbox` of section 4.1.2, with at most 64 characters before the `@` and 63 in each label behind it |
 * | `hostname` | RFC 1123, section 2.1, at most 253 characters; no labels with `--` behind two letters, as whether those are valid takes the tables of IDNA |
 * | `idn-email` | RFC 6531, with at most 64 octets before the `@` |
 * | `idn-hostname` | RFC 5890 to 5893; `idna` says which labels are offered |
 * | `ipv4` | RFC 2673, section 3.2 |
 * | `ipv6` | RFC 4291, section 2.2 |
 * | `uri`, `uri-reference` | RFC 3986 |
 * | `iri`, `iri-reference` | RFC 3987 |
 * | `uri-template` | RFC 6570, with the apostrophe as a literal (erratum 6937) |
 * | `uuid` | RFC 4122 |
 * | `json-pointer` | RFC 6901, section 5 |
 * | `relative-json-pointer` | draft-handrews-relative-json-pointer-01 |
 * | `byte` | RFC 4648, section 4 |
 * | `base64url` | RFC 4648, section 5, with or without padding |
 * | `char` | one character |
 * | `date-time-local`, `time-local` | RFC 3339, section 5.6, without the offset |
 * | `regex` | ECMA-262, with the flag `u`; `regex_format.ts` says which patterns are offered |
 *
 * Formats of the registry of OpenAPI that describe numbers are in `number_formats.ts`; others of it
 * say how a text is shown, and every string fits them.
 *
 * @module
 */

import { GrammarError } from "../../grammar_error.ts";
import { parseRegex } from "../../regex/parse_regex.ts";
import { NUMBER_FORMATS } from "../numbers/number_formats.ts";
import { MAIL_DOMAIN, mailboxes } from "./email_format.ts";
import {
  asciiMailboxes,
  asciiNames,
  internationalMailboxes,
  internationalNames,
} from "./idna/names.ts";
import { Language } from "./language.ts";
import { regexLanguage } from "./regex_format.ts";
import { IPV4, IPV6, IRI, IRI_REFERENCE, URI, URI_REFERENCE, URI_TEMPLATE } from "./uri_formats.ts";

const HOUR = "(?:[01]\\d|2[0-3])";
const MINUTE = "[0-5]\\d";
const SECOND_FRACTION = "(?:\\.\\d+)?";
const DAYS =
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))";
const LEAP_YEAR = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const DATE = `(?:\\d{4}-${DAYS}|${LEAP_YEAR}-02-29)`;
const TIME = `(?:${HOUR}:${MINUTE}:${MINUTE}${SECOND_FRACTION}(?:[Zz]|[+-]${HOUR}:${MINUTE})|${leapSeconds()})`;

/** Second 60 in every offset: the last minute of a day in UTC, in local time. */
function leapSeconds(): string {
  const clock = (minutes: number) =>
    [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, "0")).join(":");
  const day = 24 * 60;
  const last = day - 1;
  const options = [`23:59:60${SECOND_FRACTION}[Zz]`];
  for (let local = 14; local < day; local += 15) {
    const ahead = clock((local - last + day) % day);
    const behind = clock((last - local) % day);
    options.push(`${clock(local)}:60${SECOND_FRACTION}(?:\\+${ahead}|-${behind})`);
  }
  return `(?:${options.join("|")})`;
}

const DURATION = (() => {
  const part = (unit: string, smaller = "") => `\\d+${unit}${smaller && `(?:${smaller})?`}`;
  const minute = part("M", part("S"));
  const time = `T(?:${part("H", minute)}|${minute}|${part("S")})`;
  const month = part("M", part("D"));
  const date = `(?:${part("Y", month)}|${month}|${part("D")})(?:${time})?`;
  return `P(?:${date}|${time}|${part("W")})`;
})();

/** The third and fourth character of a label are not both a dash. */
const HOST_LABEL = (() => {
  const alphanumeric = "[A-Za-z0-9]";
  const any = "[A-Za-z0-9\\-]";
  const long = `${any}(?:${alphanumeric}${any}|-${alphanumeric})${any}{0,58}${alphanumeric}`;
  const behind = `(?:${any}?${alphanumeric})?|${any}{2}${alphanumeric}|${long}`;
  return `${alphanumeric}(?:${behind})`;
})();

const JSON_POINTER = "(?:\\/(?:[^~\\/]|~[01])*)*";

const BASE64 = (others: string, padding: string) =>
  `(?:[A-Za-z0-9${others}]{4})*(?:[A-Za-z0-9${others}]{2}${padding}${padding}|[A-Za-z0-9${others}]{3}${padding})?`;

const LOCAL_TIME = `${HOUR}:${MINUTE}:${MINUTE}${SECOND_FRACTION}`;

const PATTERNS: ReadonlyMap<string, string> = new Map([
  ["base64url", `(?:${BASE64("_\\-", "=")}|${BASE64("_\\-", "")})`],
  ["byte", BASE64("+\\/", "=")],
  ["char", "[^]"],
  ["date", DATE],
  ["date-time", `${DATE}[Tt]${TIME}`],
  ["date-time-local", `${DATE}[Tt]${LOCAL_TIME}`],
  ["duration", DURATION],
  ["hostname", `${HOST_LABEL}(?:\\.${HOST_LABEL})*`],
  ["ipv4", IPV4],
  ["ipv6", IPV6],
  ["iri", IRI],
  ["iri-reference", IRI_REFERENCE],
  ["json-pointer", JSON_POINTER],
  ["relative-json-pointer", `(?:0|[1-9]\\d*)(?:#|${JSON_POINTER})`],
  ["time", TIME],
  ["time-local", LOCAL_TIME],
  ["uri", URI],
  ["uri-reference", URI_REFERENCE],
  ["uri-template", URI_TEMPLATE],
  ["uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"],
]);

/** Characters of a host name of ASCII. */
const MAX_HOST_NAME = 253;

/** How a text is shown or kept, in the words of OpenAPI's registry. Every string fits. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  "binary",
  "commonmark",
  "decimal",
  "decimal128",
  "html",
  "password",
]);

/** It nests, so no pattern says what it is. */
const REGEX = "regex";
/** Parts of it are counted. */
const EMAIL = "email";

/** Formats that are offered in part, so that they have no opposite. */
const INTERNATIONAL: ReadonlyMap<string, () => readonly Language[]> = new Map([
  ["idn-email", () => [asciiMailboxes(MAIL_DOMAIN), internationalMailboxes(HOST_LABEL)]],
  ["idn-hostname", () => [asciiNames(HOST_LABEL, MAX_HOST_NAME), internationalNames(HOST_LABEL)]],
]);

const known = new Map<string, readonly Language[]>();

export function isKnownFormat(format: string): boolean {
  return (
    PATTERNS.has(format) ||
    INTERNATIONAL.has(format) ||
    ANNOTATIONS.has(format) ||
    NUMBER_FORMATS.has(format) ||
    format === EMAIL ||
    format === REGEX
  );
}

/** Whether strings have to fit it. */
export function isEnforcedFormat(format: string): boolean {
  const isPattern = PATTERNS.has(format) || INTERNATIONAL.has(format);
  return isPattern || format === EMAIL || format === REGEX;
}

/** @throws {GrammarError} for a format that is not known. */
export function checkFormat(format: string, path: string): void {
  if (isKnownFormat(format)) return;
  const known = [...PATTERNS.keys(), EMAIL, ...INTERNATIONAL.keys()].join(", ");
  throw new GrammarError(`Cannot enforce the format "${format}": it is none of ${known}`, { path });
}

/** The most characters of a text, where the format bounds them and its language does not. */
export function formatLength(format: string): number | undefined {
  return format === "hostname" ? MAX_HOST_NAME : undefined;
}

/**
 * The languages that a format is made of, which is one for most of them: texts of any are of it.
 *
 * @param format One that is enforced.
 */
export function formatParts(format: string): readonly Language[] {
  let parts = known.get(format);
  if (parts === undefined) {
    parts = INTERNATIONAL.get(format)?.() ?? [readFormat(format)];
    known.set(format, parts);
  }
  return parts;
}

function readFormat(format: string): Language {
  if (format === REGEX) return regexLanguage();
  if (format === EMAIL) return mailboxes();
  return new Language(parseRegex(PATTERNS.get(format)!), { isPlain: true });
}
