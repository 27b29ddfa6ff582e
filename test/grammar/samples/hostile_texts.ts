/**
 * Hostile regular expressions and EBNF grammars.
 *
 * @module
 */
import { SAMPLE_EBNF } from "./ebnf_grammars.ts";
import { type Family, nested } from "./hostile_source.ts";

/** Rules or definitions of which each uses the next one twice: exponential when written out. */
function doublingRules(depth: number, operator: string): string {
  const rules = Array.from(
    { length: depth },
    (_, i) => `r${i} ::= r${i + 1} ${operator} r${i + 1}`,
  );
  return ["root ::= r0", ...rules, `r${depth} ::= "a"`].join("\n");
}

const PLAIN_PATTERNS: readonly Family[] = [
  ["noise", (s) => s.noise(10_000)],
  ["mutated", (s) => s.mutate(s.regex())],
  [
    "nested groups",
    (s) => {
      const end = s.pick([")", ")*", ")+", ")?", ")*+", "|a)", ")|b", "b?)*", ")(?:)"]);
      const open = s.pick(["(", "(?:", "(a|", "(a?", "(?>", "(^", "(?i:"]);
      const text = nested(s.size(100_000), open, end, "a");
      return s.below(5) === 0 ? text.slice(0, -1 - s.below(3)) : text;
    },
  ],
  [
    "towers of bounds",
    (s) =>
      s
        .list(1 + s.below(8), () => s.pick(["", "b?", "|c", "a{2}"]))
        .reduce(
          (inner, more) =>
            `(?:${inner}${more})${s.pick([`{${s.size(10_000)}}`, `{0,${s.size(1_000_000)}}`, `{${s.size(100)},}`, "*", "{,3}"])}`,
          "a",
        ),
  ],
  [
    "ambiguous",
    (s) => {
      const n = s.size(10_000);
      return s.pick([
        `(a?){${n}}a{${n}}`,
        `(a|b)*a(a|b){${n}}`,
        `(a*)*(a*)*b`,
        `(.*a){${n}}`,
        `(a|a)*`.repeat(n),
        `(x+x+)+y`,
        `(${s.list(n, (i) => `a{${i}}`).join("|")})*`,
        `(.*,){${n}}P`,
        `((a{0,${n}}){0,${n}}){0,${n}}b`,
        `([ab]{0,${n}}b){2,9}`,
        `(a{1,${n}}|b{1,${n}}){${n}}`,
        `(?:a{2,${n}}){3,${n}}[^a]`,
      ]);
    },
  ],
  [
    "alternatives",
    (s) => s.list(s.size(100_000), (i) => s.pick([`${i}`, `option ${i}x`, "", "a"])).join("|"),
  ],
  ["prefixes", (s) => s.list(s.size(1_000), (i) => "a".repeat(i)).join("|")],
  [
    "classes",
    (s) => {
      const one = s.list(s.size(20_000), (i) => String.fromCodePoint(0x400 + 3 * i)).join("");
      return s.pick([
        `[${one}]`,
        `[^${one}]{0,9}`,
        `(?i)[${one}]`,
        `[${one}]*[${one}\\w]+`,
        s
          .list(s.size(2_000), () =>
            s.pick(["\\p{L}", "[^\\p{Lu}x]", "\\W", "(?i:\\p{Ll})", ".", "[^a]"]),
          )
          .join(""),
      ]);
    },
  ],
  [
    "possessive",
    (s) =>
      s
        .list(s.size(5_000), () =>
          s.pick(["a*+", "(?>ab|a)", "[^b]++b", "(?>[a-c]{1,9})d", "\\p{L}*+1"]),
        )
        .join(""),
  ],
  [
    "anchors",
    (s) =>
      s
        .list(s.size(2_000), () =>
          s.pick(["^", "$", "(^a|b$)*", "(?m)^", "\\A", "\\Z", "(a$|^)?", "x"]),
        )
        .join(""),
  ],
  [
    "unsupported",
    (s) =>
      s.pick([
        "(?<=a(?=bc))b",
        "\\1(a)",
        "(?<=a*+)x",
        "(?<n>a)\\k<n>",
        "[[:alpha:]]",
        "(?R)",
        "a{1,2}{3}",
        "\\u{110000}",
        "\\ud800",
        `a{${"9".repeat(s.size(1000))}}`,
        "\\x",
        "(?z)a",
        "\\p{Nope}",
      ]),
  ],
  [
    "long literals",
    (s) =>
      s
        .noise(100)
        .replace(/[^a-z0-9]/g, "x")
        .repeat(s.size(50_000))
        .slice(0, 2 ** 20 - s.below(2)),
  ],
];

/** Rules that begin with each other. */
function leftCircle(count: number, before: string): string {
  const rules = Array.from(
    { length: count },
    (_, i) => `r${i} ::= ${before} r${(i * 7 + 1) % count} "a" | r${(i + 1) % count} | "b"`,
  );
  return ["root ::= r0", ...rules].join("\n");
}

/** Patterns that say something of the text around a place. */
const LOOKS: readonly Family[] = [
  [
    "lookaround",
    (s) =>
      s
        .list(s.size(2_000), (i) =>
          s.pick([
            `(?=.*${s.pick(["a", "b", `w${i}`])})`,
            `(?!.*${s.pick(["ab", "c{3}", `w${i}`])})`,
            `(?<=${s.pick(["a", "a.", "(a|b)*"])})`,
            `(?<!${s.pick(["a", "b.{3}", `x${i}`])})`,
            "(?:(?=a)|b)*",
            "\\b",
            "\\B",
            "(?m:^|$)",
            "[ab]",
            ".*",
            "(?i:k)",
          ]),
        )
        .join(""),
  ],
  [
    "lookaround of long memory",
    (s) => {
      const [n, m] = [s.size(3_000), s.size(300)];
      return s.pick([
        `(?!.*a.{${n}}b).*`,
        `(?=.*a.{${n}}b).*`,
        `(?<=a.{${n}})b|.*`,
        `(.*(?<!a.{${n}})b)*`,
        `^(?=.{1,${n}}$)([a-z]{1,${m}}\\.)*[a-z]{1,${m}}$`,
        `(?:(?!${"a?".repeat(n)}b).){0,${m}}`,
        `(?:(?=[ab]{${m}}a)[ab]){0,${n}}.*`,
        `(?=.*\\p{Lu}.{${m}})(?!.*\\p{Nd}{${m}})[\\p{L}\\p{N}]{0,${n}}`,
        `${nested(s.size(50_000), s.pick(["(?=a", "(?!.*b", "(?<=a", "(?<!b?"]), ")")}.*`,
        s.list(m, (i) => `(?:(?=.*w${i}x)|)`).join("") + "(?:.)+",
      ]);
    },
  ],
];

export const PATTERNS: readonly Family[] = [...PLAIN_PATTERNS, ...LOOKS];

export const GRAMMARS: readonly Family[] = [
  ["noise", (s) => s.noise(10_000)],
  ["mutated", (s) => s.mutate(s.pick(SAMPLE_EBNF).ebnf)],
  [
    "nested groups",
    (s) =>
      `root ::= ${nested(s.size(100_000), s.pick(["(", '("a" ', '("b" | ']), s.pick([")", ")*", ")?", ' "a")', "){2}", "){0,9}"]), '"a"')}`,
  ],
  [
    "rules in a row",
    (s) => {
      const n = s.size(50_000);
      const [before, behind] = s.pick([
        ["", ""],
        ['"a" ', ""],
        ["", ' "b"'],
        ['"a" | ', ""],
        ['"a"? ', ' "b"?'],
        ["(", ")*"],
      ]);
      const last = s.pick(['"a"', "root", "none", `"a" r${s.below(n + 1)} | "b"`]);
      return [
        "root ::= r0",
        ...s.list(n, (i) => `r${i} ::= ${before}r${i + 1}${behind}`),
        `r${n} ::= ${last}`,
      ].join("\n");
    },
  ],
  [
    "doubling rules",
    (s) => doublingRules(s.size(5_000), s.pick(["", "|", '"b" |', '"c"?', '"x" | "y"'])),
  ],
  [
    "ambiguous",
    (s) =>
      s.pick([
        'root ::= "a" root root | ""',
        'root ::= "a" root "a" | "b" root "b" | ""',
        'root ::= "(" root ")" root | "[" root "]" root | ""',
        'root ::= x*\nx ::= ("a" | "a" x "a")',
        'root ::= (("a"*)* | ("a"?){0,1000})*',
        'root ::= "a" (root "x" | root "y" | root "z" | root) | "a"',
        'root ::= "a" root "b" root | "a" root "c" | "a" root | "d"',
        `root ::= ("a"{0,${s.size(100_000)}} "b"?){0,${s.size(100_000)}}`,
        `root ::= x{0,${s.size(10_000)}} y{0,${s.size(10_000)}} x{0,${s.size(10_000)}}\nx ::= "a" | "aa"{0,50}\ny ::= "a"+ | x x`,
        `root ::= ${s.list(s.size(3_000), (i) => `("a"{0,${i + 1}} "b")`).join(" | ")}`,
        `root ::= ${s.list(s.size(3_000), () => '("a" root "b"?)?').join(" ")} "a"`,
        `root ::= ${s.list(s.size(3_000), (i) => `"a" root "${i}"`).join(" | ")} | "a"`,
      ]),
  ],
  [
    "Lark",
    (s) =>
      s.pick([
        s.mutate(
          '%import common (WS, INT)\n%ignore WS\nstart: start "," INT | "(" start ")" | INT',
        ),
        `start: ${nested(s.size(100_000), s.pick(["(", '["a" ', '("b" | ']), s.pick([")", ")*", "]", ")~2..9"]), '"a"')}`,
        `%ignore ${s.pick(["/ */", '" "', "A"])}\nstart: ${'"a" '.repeat(s.size(50_000))}\nA: ${s.pick(["A", '"b"', "/c?/"])}`,
        `start: %json ${nested(s.size(50_000), '{"items":', "}", "{}")}`,
        `start: a\n${s.list(s.size(20_000), (i) => `a${i}: a${s.below(i + 1)} "${i}" | /${i}+/`).join("\n")}\na: a0 | "a"`,
        `${"// \n".repeat(s.size(50_000))}start: /${s.regex()}/ ${s.noise(30)}`,
      ]),
  ],
  [
    "left recursion",
    (s) =>
      s.pick([
        'root ::= root "a" | "b"',
        "root ::= root",
        'root ::= x\nx ::= ""? root',
        'root ::= "a"? y\ny ::= ("b"*) root "c" | "d"',
        'root ::= root root | root? "a" | ""',
        leftCircle(s.size(3_000), s.pick(["", '"a"?', '("b"*)?'])),
        `root ::= ${s.list(s.size(3_000), (i) => `root "${i}"`).join(" | ")} | "a"`,
        `root ::= ${nested(s.size(50_000), s.pick(["(", '("b"? ', "(root | "]), s.pick([")", ")*", ' "c")']), "root")} | "a"`,
        `root ::= ${s.list(s.size(3_000), () => '("a"? root?)?').join(" ")} "a"`,
      ]),
  ],
  [
    "towers of bounds",
    (s) =>
      `root ::= ${s.list(1 + s.below(9), () => s.pick(['"b"?', '| "c"', ""])).reduce((inner, more) => `(${inner} ${more})${s.pick([`{${s.size(10_000)}}`, `{0,${s.size(1_000_000)}}`, `{${s.size(100)},}`, "*"])}`, '"a"')}`,
  ],
  [
    "large",
    (s) => {
      const n = s.size(50_000);
      return s.pick([
        `root ::= ${s.list(n, (i) => `"option ${i}"`).join(" | ")}`,
        `root ::= ${s.list(n, (i) => `[${String.fromCodePoint(0x4e00 + (i % 9000))}-龥]`).join(" ")}`,
        `root ::= "a" #${s.noise(10_000).replace(/[\r\n]/g, "")}`,
        `${"\n".repeat(n)}root ::= "a" )`,
        `root ::= ${'"a" '.repeat(n)}`,
        `root ::= "${"a".repeat(n)}"{0,${n}}`,
        [
          "root ::= r0",
          ...s.list(n, (i) => `r${i} ::= "a" r${s.below(n)} | "b" r${s.below(n)} "c" | "d"`),
        ].join("\n"),
      ]);
    },
  ],
];
