/**
 * Internationalized host names and addresses of mail: the formats `idn-hostname` and `idn-email`.
 *
 * A label stands in the Domain Name System in Punycode (RFC 3492), which no automaton counts: 63
 * octets at most, and 253 of a whole name. So labels have as many characters as are sure to take 62
 * octets at most, whatever they are: the numbers below are of the worst of all labels with
 * characters of the same range, found by following each number of digits and each bias that the
 * algorithm may come to. A name has four such labels at most. Names of ASCII alone have the lengths
 * of the Domain Name System itself. A-labels (`xn--..`) are not offered, as of `hostname`.
 *
 * A name with a letter from right to left is a Bidi domain name, all labels of which obey the Bidi
 * rule: those from left to right beside it are offered in ASCII.
 *
 * @module
 */

import { automatonOf } from "../../../automaton/code_point_automaton.ts";
import {
  ANY_CODE_POINT,
  type CodePoints,
  codePointsOf,
  unite,
} from "../../../automaton/code_points.ts";
import { AutomatonBuilder, intersection, union } from "../../../automaton/regular.ts";
import {
  type CodePointAutomaton,
  choice,
  type Expression,
  regular,
  repeat,
  rule,
  sequence,
} from "../../../expression.ts";
import { insideJsonString, UNESCAPED } from "../../../json_string.ts";
import { parseRegex } from "../../../regex/parse_regex.ts";
import { countedExpression } from "../counted_language.ts";
import { Language } from "../language.ts";
import { lengthsOf } from "../lengths.ts";
import {
  ASCII,
  japaneseLabel,
  leftToRightLabel,
  rightToLeftLabel,
  type Shape,
  shapeOf,
} from "./labels.ts";

/** Labels of a name that has characters beyond ASCII. */
const MAX_LABELS = 4;
/** Octets of a label of such a name. */
const MAX_LABEL = 62;
/** Characters of such a name, which none is in fact as long as. */
const MAX_INTERNATIONAL_NAME = MAX_LABELS * (MAX_LABEL + 1) - 1;
/** The full stop, and those that people write in its place (RFC 3490, section 3.1). */
const SEPARATORS = codePointsOf(".\u3002\uff0e\uff61");
const FULL_STOP = codePointsOf(".");
/** Octets of UTF-8 before the `@` (RFC 6531, section 3.3). */
const MAX_LOCAL_PART = 64;

const ASCII_FROM_LEFT = "[A-Za-z](?:[A-Za-z0-9\\-]*[A-Za-z0-9])?";

interface Kind extends Shape {
  readonly within: CodePoints;
  readonly most: number;
}

/** Letters of Latin, Greek and Cyrillic that lie side by side: only these are mixed with any others. */
const MIXED_LETTERS: CodePoints = [
  [0xdf, 0xff],
  [0x3ac, 0x3ce],
  [0x430, 0x45f],
];
const ANY_LABEL: Kind = {
  within: unite([ASCII, MIXED_LETTERS, [[0x800, 0x10ffff]]]),
  most: 13,
};
const FROM_LEFT: readonly Kind[] = [
  ANY_LABEL,
  { within: unite([ASCII, MIXED_LETTERS, [[0x800, 0x200d]]]), most: 17 },
  { within: [[0, 0x7ff]], most: 19 },
  { within: [[0, 0xff]], most: 26 },
  { within: [[0, 0xff]], most: 50, mostOthers: 3 },
  { within: unite([ASCII, [[0x370, 0x3ff]]]), most: 25 },
  { within: unite([ASCII, [[0xac00, 0xd7a3]]]), most: 16 },
];
const MOST_JAPANESE = 15;
const FROM_RIGHT: readonly Kind[] = [
  { within: ANY_CODE_POINT, most: 13 },
  { within: [[0, 0x200d]], most: 17 },
  { within: [[0, 0x7ff]], most: 19 },
];

/** A label without its length, and its most characters. */
interface Label {
  readonly language: CodePointAutomaton;
  readonly most: number;
}

/** Labels from left to right, and those that the Bidi rule allows. */
function labelsOf(label: string): readonly (readonly Label[])[] {
  const ascii = automatonOf(parseRegex(label));
  const fromLeft = automatonOf(parseRegex(ASCII_FROM_LEFT));
  const shaped = (language: CodePointAutomaton, shape: Shape): CodePointAutomaton =>
    intersection(language, shapeOf(shape));
  return [
    [
      { language: ascii, most: MAX_LABEL },
      ...FROM_LEFT.map(({ within, most, mostOthers }) => {
        const shape = mostOthers === undefined ? {} : { mostOthers };
        return { language: shaped(leftToRightLabel(within), shape), most };
      }),
      { language: shaped(japaneseLabel(), {}), most: MOST_JAPANESE },
    ],
    [
      { language: shaped(fromLeft, {}), most: MAX_LABEL },
      ...FROM_RIGHT.map(({ within, most }) => {
        return { language: shaped(rightToLeftLabel(within), {}), most };
      }),
    ],
  ];
}

const LABELS = ["label", "label of a Bidi domain name"];

let rules: ReadonlyMap<string, Expression> | undefined;

/** @param label Of `hostname`, as a regular expression. */
function labelRules(label: string): ReadonlyMap<string, Expression> {
  rules ??= new Map(
    labelsOf(label).map((labels, i) => [LABELS[i]!, choice(labels.map(countedLabel))] as const),
  );
  return rules;
}

function countedLabel({ language, most }: Label): Expression {
  const lengths = lengthsOf(language)!;
  return countedExpression({ language, lengths, min: 1, max: most }, UNESCAPED);
}

function contentOf(separators: CodePoints): Expression {
  const separator: Expression = { kind: "class", points: separators };
  const names = LABELS.map((name) => {
    const more = sequence([separator, rule(name)]);
    return sequence([rule(name), repeat(more, { max: MAX_LABELS - 1 })]);
  });
  return choice(names);
}

/** Characters of a joined name: in Punycode none has more than 253 octets. */
const MAX_JOINED = 53;

/** For joining names with other facts: fewer kinds of labels, their lengths written out. */
function joinedNames(label: string, separators: CodePoints): Expression {
  const fromLeft = [
    automatonOf(parseRegex(label)),
    intersection(leftToRightLabel(ANY_LABEL.within), shapeOf({ most: ANY_LABEL.most })),
  ];
  const shape = shapeOf({ most: 13 });
  const fromRight = [
    intersection(automatonOf(parseRegex(ASCII_FROM_LEFT)), shape),
    intersection(rightToLeftLabel([[0, 0x7ff]]), shape),
  ];
  const names = [fromLeft, fromRight].map((labels) => namesOf(labels.reduce(union), separators));
  return regular(names.reduce(union));
}

/**
 * Names of ASCII alone.
 *
 * @param label Of `hostname`, as a regular expression.
 * @param bound Their most characters.
 */
export function asciiNames(label: string, bound: number): Language {
  const make = () => regular(namesOf(automatonOf(parseRegex(label)), SEPARATORS));
  return new Language(make, { isPlain: true, isPart: true, bound });
}

/** @param label Of `hostname`, as a regular expression. */
export function internationalNames(label: string): Language {
  return new Language(() => joinedNames(label, SEPARATORS), {
    isPlain: true,
    isPart: true,
    bound: MAX_JOINED,
    content: contentOf(SEPARATORS),
    rules: () => labelRules(label),
    least: 1,
    most: MAX_INTERNATIONAL_NAME,
  });
}

/** Labels with a separator between each two. */
function namesOf({ states }: CodePointAutomaton, separators: CodePoints): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  for (const { accepting } of states) builder.add(accepting);
  states.forEach(({ accepting, edges }, state) => {
    for (const edge of edges) builder.connect(state, edge);
    if (!accepting) return;
    for (const [first, last] of separators) builder.connect(state, { first, last, target: 0 });
  });
  return builder.build();
}

const LOCAL_PART = "local part of a mailbox";

/** Characters beyond ASCII stand in words and between quotes (RFC 6532, section 3.2). */
function localPart(): Expression {
  const atom = "[A-Za-z0-9!#$%&'*+\\/=?^_`{|}~\\-\\u{80}-\\u{10FFFF}]+";
  const quoted = '"(?:[ !#-\\[\\]-~\\u{80}-\\u{10FFFF}]|\\\\[ -~])*"';
  const part = automatonOf(parseRegex(`(?:${atom}(?:\\.${atom})*|${quoted})`));
  return regular(intersection(part, octetsUpTo(MAX_LOCAL_PART)));
}

/**
 * Mailboxes with a domain of ASCII.
 *
 * @param domain Of `email`, with the `@`, as a regular expression.
 */
export function asciiMailboxes(domain: string): Language {
  const make = () => sequence([localPart(), parseRegex(domain)]);
  return new Language(make, { isPlain: true, isPart: true });
}

/** @param label Of `hostname`, as a regular expression. */
export function internationalMailboxes(label: string): Language {
  const spelled = () => insideJsonString(automatonOf(localPart()), UNESCAPED);
  const at: Expression = { kind: "class", points: codePointsOf("@") };
  return new Language(() => sequence([localPart(), at, joinedNames(label, FULL_STOP)]), {
    isPlain: true,
    isPart: true,
    // Two more are the least before a domain.
    bound: MAX_JOINED + 2,
    content: sequence([rule(LOCAL_PART), at, contentOf(FULL_STOP)]),
    rules: () => new Map([...labelRules(label), [LOCAL_PART, regular(spelled())]]),
    least: 1,
    most: MAX_LOCAL_PART + 1 + MAX_INTERNATIONAL_NAME,
  });
}

const OCTETS: readonly (readonly [octets: number, points: CodePoints])[] = [
  [1, ASCII],
  [2, [[0x80, 0x7ff]]],
  [
    3,
    [
      [0x800, 0xd7ff],
      [0xe000, 0xffff],
    ],
  ],
  [4, [[0x10000, 0x10ffff]]],
];

/** Texts of so many octets of UTF-8. */
function octetsUpTo(most: number): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  for (let octets = 0; octets <= most; octets++) builder.add(true);
  for (let octets = 0; octets <= most; octets++) {
    for (const [more, points] of OCTETS) {
      if (octets + more > most) continue;
      for (const [first, last] of points) {
        builder.connect(octets, { first, last, target: octets + more });
      }
    }
  }
  return builder.build();
}
