/**
 * Addresses of mail: the format `email` (RFC 5321, `Mailbox` of section 4.1.2).
 *
 * The lengths of the local part and of labels are counted where nothing but the format is asked of a
 * string; written out, each state of these would be there 64 times.
 *
 * @module
 */
import { automatonOf } from "../../automaton/code_point_automaton.ts";
import { intersection } from "../../automaton/regular.ts";
import { choice, type Expression, regular, repeat, sequence, text } from "../../expression.ts";
import { insideJsonString, PLAIN_ASCII } from "../../json_string.ts";
import { parseRegex } from "../../regex/parse_regex.ts";
import { countedExpression } from "./counted_language.ts";
import { Language } from "./language.ts";
import { lengthsOf } from "./lengths.ts";
import { IPV4, IPV6 } from "./uri_formats.ts";

/** Characters. */
const MAX_LOCAL_PART = 64;
const MAX_LABEL = 63;

const ATOM = "[A-Za-z0-9!#$%&'*+\\/=?^_`{|}~\\-]+";
const QUOTED = '"(?:[ !#-\\[\\]-~]|\\\\[ -~])*"';
const LOCAL_PART = `(?:${ATOM}(?:\\.${ATOM})*|${QUOTED})`;
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9\\-]*[A-Za-z0-9])?";
const BOUNDED_LABEL = `[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,${MAX_LABEL - 2}}[A-Za-z0-9])?`;
const LITERAL = `\\[(?:${IPV4}|[Ii][Pp][Vv]6:${IPV6})\\]`;

/** What follows the local part, with the `@`, as a regular expression. */
export const MAIL_DOMAIN = `@(?:${BOUNDED_LABEL}(?:\\.${BOUNDED_LABEL})*|${LITERAL})`;

export function mailboxes(): Language {
  const short = automatonOf(parseRegex(`[ -~]{0,${MAX_LOCAL_PART}}`));
  const make = () => {
    const local = regular(intersection(automatonOf(parseRegex(LOCAL_PART)), short));
    return sequence([local, parseRegex(MAIL_DOMAIN)]);
  };
  return new Language(make, { isPlain: true, spelled });
}

function spelled(): Expression {
  const label = counted(LABEL, MAX_LABEL);
  const literal = regular(insideJsonString(automatonOf(parseRegex(LITERAL)), PLAIN_ASCII));
  const names = sequence([label, repeat(sequence([text("."), label]))]);
  return sequence([counted(LOCAL_PART, MAX_LOCAL_PART), text("@"), choice([names, literal])]);
}

/** @param most Characters. */
function counted(pattern: string, most: number): Expression {
  const language = automatonOf(parseRegex(pattern));
  const lengths = lengthsOf(language)!;
  return countedExpression({ language, lengths, min: 1, max: most }, PLAIN_ASCII);
}
