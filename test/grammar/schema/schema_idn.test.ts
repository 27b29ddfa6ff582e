/** The formats `idn-hostname` and `idn-email`: what is offered is valid, by Node's own reading of UTS 46. */
import { domainToASCII, domainToUnicode } from "node:url";
import { describe, expect, test } from "vitest";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { jsonSchemaGrammar } from "../../../src/grammar/schema/json_schema.ts";
import { idnaCharacters } from "../../../src/grammar/schema/strings/idna/characters.ts";
import { seededRandom, TextSampler } from "../samples/sample_text.ts";
import { acceptorOfSchema } from "../samples/schema_acceptance.ts";
import { judge, refusal } from "../samples/schema_judge.ts";

const NAME = { type: "string", format: "idn-hostname" };
const MAILBOX = { type: "string", format: "idn-email" };
/** Texts that are drawn of each grammar. */
const DRAWN = process.env.WISP_TEST_FULL === "1" ? 20_000 : 400;

/** Node knows fewer letters that join, and fewer from right to left, than Unicode 14 has. */
const UNKNOWN_TO_NODE = /\u200c|\u200d|[\u0870-\u08ff]|[\u{10f70}-\u{10faf}]/u;

/** Why a name is none; labels of ASCII may have capital letters, which UTS 46 would write small. */
function problemOf(name: string): string | undefined {
  const ascii = domainToASCII(name);
  if (ascii === "") return "it is none";
  if (ascii.length > 253) return `it has ${ascii.length} octets`;
  if (ascii.split(".").some((label) => label.length > 63)) return "a label is too long";
  const written = name
    .replace(/[\u3002\uff0e\uff61]/g, ".")
    .replace(/[A-Z]/g, (c) => c.toLowerCase());
  return domainToUnicode(ascii) === written ? undefined : "it is not as it would be written";
}

/** What Node takes for an address by its last label, and RFC 1123 for a name. */
function isAddress(name: string): boolean {
  return /^(0[xX][0-9A-Fa-f]*|[0-9]+)$/.test(name.split(/[.\u3002\uff0e\uff61]/).at(-1)!);
}

const quoted = (texts: readonly string[]) => texts.map((text) => JSON.stringify(text));

describe("idn-hostname", () => {
  test.each([{}, { maxLength: 20 }, { pattern: "^[^a-z]" }, { minLength: 3, maxLength: 253 }])(
    "with %j, drawn names are valid",
    (more) => {
      const sampler = new TextSampler(jsonSchemaGrammar({ ...NAME, ...more }), seededRandom(11));
      for (let i = 0; i < DRAWN; i++) {
        const name: string = JSON.parse(sampler.sample()!);
        if (UNKNOWN_TO_NODE.test(name) || isAddress(name)) continue;
        expect([name, problemOf(name)]).toEqual([name, undefined]);
      }
    },
  );

  test("names that people have are accepted, others are not", () => {
    judge(
      NAME,
      quoted([
        ...["example.com", "münchen.de", "straße.example", "παράδειγμα.δοκιμή", "пример.испытание"],
        ...[
          "例え.テスト",
          "例え。テスト",
          "コンピューター・ネットワーク.jp",
          "실례.테스트",
          "ไทย.คอม",
        ],
        ...["उदाहरण.परीक्षा", "تجربة-عربية.example", "דוגמה.טעסט", "شیرین‌بیان.ایران", "l·l.cat"],
        ...[
          "landesbeauftragter-für-den-datenschutz.example",
          "x".repeat(63),
          "۰0",
          "a1.b2.c3.d4.e5",
        ],
      ]),
      quoted([
        ...[
          "",
          ".",
          "a..b",
          "-a",
          "a-",
          "Bücher.de",
          "ＡＢＣ",
          "a_b",
          "x".repeat(64),
          "xn--mnchen-3ya.de",
        ],
        ...[
          "a\u0301b",
          "a.א1\u0660",
          "0a.א",
          "aא",
          "א-\u05b0",
          "l·a",
          "·",
          "\u0301a",
          "ab--ü",
          "٠a",
        ],
        ...["ب\u200c", "क\u200dष", "・a", "ü".repeat(60), "a😀b", "ﬁ"],
      ]),
    );
  });

  test("joined with other facts it stays what it is", () => {
    judge({ ...NAME, maxLength: 10 }, ['"ü.de"', '"a.b"'], ['"übersetzungen.de"', '"-"']);
    judge({ ...NAME, enum: ["ü.de", "ü", "ü..de", 1] }, ['"ü.de"', '"ü"'], ['"ü..de"', "1"]);
  });

  test("what is none is left out, and keys are not told by it", () => {
    const { warnings } = compileGrammar({ jsonSchema: { not: NAME } });
    expect(warnings).toContain(
      "Left out texts that are no idn-hostname: no grammar asks for them (at /not/format)",
    );
    judge({ not: NAME }, ["1"], ['"ü.de"', '"xn--mnchen-3ya.de"', '"-"']);
    expect(refusal({ type: "object", propertyNames: NAME }).message).toContain("format of keys");
  });
});

describe("idn-email", () => {
  test("drawn addresses have a local part of up to 64 octets and a valid domain", () => {
    const sampler = new TextSampler(jsonSchemaGrammar(MAILBOX), seededRandom(12));
    for (let i = 0; i < DRAWN; i++) {
      const text: string = JSON.parse(sampler.sample()!);
      const at = text.lastIndexOf("@");
      expect(new TextEncoder().encode(text.slice(0, at)).length).toBeLessThanOrEqual(64);
      const domain = text.slice(at + 1);
      if (UNKNOWN_TO_NODE.test(domain) || domain.startsWith("[") || isAddress(domain)) continue;
      expect([domain, problemOf(domain)]).toEqual([domain, undefined]);
    }
  });

  test("addresses that people have are accepted, others are not", () => {
    judge(
      MAILBOX,
      quoted([
        ...["a@b.c", "用户@例子.广告", "δοκιμή@παράδειγμα.δοκιμή", '"π r"@a.b', "ü@[127.0.0.1]"],
        ...["é".repeat(32) + "@ü.de", "x".repeat(64) + "@a.b"],
      ]),
      quoted([
        ...["a", "a@", "@b", "ü@-b", "ü..a@b.c", "ü@b。c", "é".repeat(32) + "a@ü.de", "a@b@ü"],
      ]),
    );
  });
});

/** RFC 5892, section 2: neither unstable nor ignorable (2.2 to 2.4, 2.9), nor letters of old Hangul. */
const KEPT = [
  "(?![\\p{Changes_When_NFKC_Casefolded}\\p{Default_Ignorable_Code_Point}\\p{White_Space}])",
  "(?![\\u{1100}-\\u{11FF}\\u{A960}-\\u{A97F}\\u{D7B0}-\\u{D7FF}])",
  "(?![\\u{20D0}-\\u{20FF}\\u{1D100}-\\u{1D24F}])",
].join("");
/** Letters, digits and marks (2.1), and the exceptions (2.6). */
const VALID = new RegExp(
  `^(?:${KEPT}[\\p{L}\\p{Nd}\\p{Mn}\\p{Mc}]|[\\u{DF}\\u{3C2}\\u{6FD}\\u{6FE}\\u{F0B}\\u{3007}])$`,
  "u",
);
const DISALLOWED = [0x640, 0x7fa, 0x302e, 0x302f, 0x3031, 0x3032, 0x3033, 0x3034, 0x3035, 0x303b];

test("characters of names are valid by their properties, in normalization form C", () => {
  const { letters, spacingMarks, lateSpacingMarks, rightToLeft, marks, lateMarks } =
    idnaCharacters();
  const all = [
    letters,
    spacingMarks,
    lateSpacingMarks,
    rightToLeft,
    ...marks.values(),
    ...lateMarks.values(),
  ];
  let count = 0;
  for (const [first, last] of all.flat()) {
    for (let point = first; point <= last; point++) {
      const character = String.fromCodePoint(point);
      count++;
      if (
        VALID.test(character) &&
        !DISALLOWED.includes(point) &&
        character.normalize() === character
      )
        continue;
      expect.unreachable(`U+${point.toString(16)}`);
    }
  }
  expect(count).toBe(129_128);
});

test("a schema with many names compiles", () => {
  const accept = acceptorOfSchema({
    properties: { a: NAME, b: MAILBOX, c: { ...NAME, maxLength: 64 } },
  });
  expect(accept('{"a": "ü.de", "b": "ü@ü.de", "c": "ü.de"}')).toBe(true);
  expect(accept('{"a": "ü..de"}')).toBe(false);
});
